/*
 * Finding libcupti, and what it refuses. It is a copy that the program has mapped itself, else the places that the
 * recorder worked out from the program's maps, else the linker's own search. main.c and
 * nvtx.c ask for it while CUDA starts; a few later calls of the driver go through here
 * as well. A release newer than the driver must not be used: it cannot start.
 */
#include "load.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *soname;
	uint32_t major;
} sonames[] = {{"libcupti.so.13", 13}, {"libcupti.so.12", 12},
	       {"libcupti.so.11.8", 11}, {"libcupti.so.11.7", 11}, {"libcupti.so.11.6", 11}};
#define SONAMES (sizeof sonames / sizeof sonames[0])

static void *library; /* the libcupti in use */
static char found_path[4096];
static char error_text[512];

const char *ct_load_path(void)
{
	return found_path;
}

const char *ct_load_error(void)
{
	return error_text;
}

static const struct {
	const char *name;
	size_t field; /* of struct ct_cupti */
	bool needed;
} functions[] = {
	{"cuptiGetVersion", offsetof(struct ct_cupti, get_version), true},
	{"cuptiActivityRegisterCallbacks", offsetof(struct ct_cupti, register_callbacks), true},
	{"cuptiActivityEnable", offsetof(struct ct_cupti, enable), true},
	{"cuptiActivityDisable", offsetof(struct ct_cupti, disable), true},
	{"cuptiActivityGetNextRecord", offsetof(struct ct_cupti, get_next_record), true},
	{"cuptiActivityFlushAll", offsetof(struct ct_cupti, flush_all), true},
	{"cuptiActivityGetNumDroppedRecords", offsetof(struct ct_cupti, get_dropped), true},
	{"cuptiGetTimestamp", offsetof(struct ct_cupti, get_timestamp), true},
	{"cuptiGetCallbackName", offsetof(struct ct_cupti, get_callback_name), true},
	{"cuptiGetResultString", offsetof(struct ct_cupti, get_result_string), true},
	{"cuptiSubscribe", offsetof(struct ct_cupti, subscribe), true},
	{"cuptiSubscribe_v2", offsetof(struct ct_cupti, subscribe_v2), false},
	{"cuptiUnsubscribe", offsetof(struct ct_cupti, unsubscribe), true},
	{"cuptiEnableCallback", offsetof(struct ct_cupti, enable_callback), true},
	{"cuptiActivityRegisterTimestampCallback", offsetof(struct ct_cupti, register_timestamp), true},
	{"cuptiSetThreadIdType", offsetof(struct ct_cupti, set_thread_id_type), true},
	{"cuptiActivityEnableRuntimeApi", offsetof(struct ct_cupti, enable_runtime_api), false},
	{"cuptiActivityEnableDriverApi", offsetof(struct ct_cupti, enable_driver_api), false},
	{"cuptiFinalize", offsetof(struct ct_cupti, finalize), false},
};

static bool resolve(void *handle, struct ct_cupti *api)
{
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		void *f = dlsym(handle, functions[i].name);
		if (!f && functions[i].needed) {
			snprintf(error_text, sizeof error_text, "it has no function %s", functions[i].name);
			return false;
		}
		memcpy((char *)api + functions[i].field, &f, sizeof f);
	}
	return true;
}

/* The CUDA major release that a value of cuptiGetVersion belongs to. */
static uint32_t cuda_major(uint32_t version)
{
	if (version >= CUPTI_V13_0)
		return version / 10000;
	if (version >= CUPTI_V12_0)
		return 12;
	return version >= CUPTI_V11_0 ? 11 : 10;
}

static void remember_path(const struct ct_cupti *api, const char *fallback)
{
	Dl_info info;
	void *f;
	memcpy(&f, &api->get_version, sizeof f);
	if (dladdr(f, &info) && info.dli_fname)
		fallback = info.dli_fname;
	snprintf(found_path, sizeof found_path, "%s", fallback);
}

/* Takes an opened library when it is whole and not newer than the driver. */
static bool take(void *handle, const char *name, uint32_t driver, struct ct_cupti *api)
{
	memset(api, 0, sizeof *api);
	if (!resolve(handle, api))
		return false;
	if (api->get_version(&api->version) != 0) {
		snprintf(error_text, sizeof error_text, "cuptiGetVersion failed");
		return false;
	}
	remember_path(api, name);
	uint32_t major = cuda_major(api->version);
	if (driver != 0 && major > driver / 1000) {
		snprintf(error_text, sizeof error_text, "it belongs to CUDA %u, the driver knows CUDA up to %u.%u", major,
			 driver / 1000, driver % 1000 / 10);
		return false;
	}
	return true;
}

static bool open_one(const char *name, int flags, uint32_t driver, struct ct_cupti *api)
{
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | flags);
	if (!handle)
		return false;
	if (take(handle, name, driver, api)) {
		library = handle; /* stays open for the life of the program */
		return true;
	}
	dlclose(handle);
	return false;
}

/*
 * Whether the program would hang in the dlopen of libcupti: with LeakSanitizer's own runtime (-fsanitize=leak) the
 * dynamic linker calls malloc for libcupti's thread-local data, and that malloc looks for its own, without end (glibc
 * 2.39, GCC 13, CUPTI 13.0.1, whoever loads libcupti). AddressSanitizer's leak checks are not concerned.
 */
static bool would_hang(void)
{
	return dlsym(RTLD_DEFAULT, "__lsan_do_leak_check") && !dlsym(RTLD_DEFAULT, "__asan_init");
}

/* A function of the libcupti in use, NULL without. */
void *ct_load_symbol(const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

/* The functions of the libcupti in use as its table of symbols has them now; false without one. */
bool ct_load_again(struct ct_cupti *api)
{
	return library && resolve(library, api);
}

static void *open_for(const char *path, int flags, const char *name)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | flags);
	if (!handle)
		return NULL;
	void *f = dlsym(handle, name);
	if (!f)
		dlclose(handle);
	return f;
}

/*
 * A function of the likeliest libcupti, before there is one in use; the library
 * stays open. Touches nothing that ct_load on another thread might.
 */
void *ct_load_early(const char *name, const struct ct_candidate *list, unsigned count)
{
	void *f = NULL;
	for (size_t i = 0; !f && i < SONAMES; i++)
		f = open_for(sonames[i].soname, RTLD_NOLOAD, name);
	if (!f && would_hang())
		return NULL;
	for (unsigned i = 0; !f && i < count; i++)
		f = open_for(list[i].path, 0, name);
	for (size_t i = 0; !f && i < SONAMES; i++)
		f = open_for(sonames[i].soname, 0, name);
	return f;
}

/* Whether the program has loaded a libcupti. */
bool ct_load_mapped(void)
{
	void *handle = NULL;
	for (size_t i = 0; !handle && i < SONAMES; i++)
		handle = dlopen(sonames[i].soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	if (handle)
		dlclose(handle);
	return handle != NULL;
}

/*
 * A function of the driver, which stays loaded; NULL without. The handle is not closed: after a dlclose the recorder
 * has to look anew where the process's libraries lie.
 */
void *ct_load_driver_symbol(const char *name)
{
	static _Atomic(void *) driver;
	void *handle = atomic_load(&driver);
	if (!handle) {
		handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
		atomic_store(&driver, handle);
	}
	return dlsym(handle ? handle : RTLD_DEFAULT, name);
}

/*
 * Keeps the library of a function loaded; false if there is none, or if the function has not that name in it. Waits until
 * a library that is being loaded can be used. The program's own file stays anyway.
 */
bool ct_load_keep(void *function, const char *name)
{
	Dl_info info;
	void *handle = NULL;
	if (dladdr(function, &info) && info.dli_fname)
		handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	return handle && (!name || dlsym(handle, name) == function);
}

/* Where the code of a function of the driver is; false if that is not known. */
bool ct_load_driver_code(const char *name, uintptr_t *from, uintptr_t *to)
{
	Dl_info info;
	void *f = ct_load_driver_symbol(name), *entry = NULL;
	if (!f || !dladdr1(f, &info, &entry, RTLD_DL_SYMENT) || !entry)
		return false;
	*from = (uintptr_t)f;
	*to = *from + ((const ElfW(Sym) *)entry)->st_size;
	return *to > *from;
}

/* What a function of the driver that takes an int * says; false when it cannot be asked. */
static bool ask_driver(const char *name, int *answer)
{
	void *f = ct_load_driver_symbol(name);
	int (*get)(int *) = NULL;
	memcpy(&get, &f, sizeof f);
	return get && get(answer) == 0;
}

/* The newest CUDA release that the driver knows, as 13000 for 13.0; 0 when it does not say. */
uint32_t ct_load_driver(void)
{
	int version = 0;
	return ask_driver("cuDriverGetVersion", &version) && version > 0 ? (uint32_t)version : 0;
}

/* A call of the driver that does next to nothing. */
bool ct_load_count_devices(void)
{
	int count;
	return ask_driver("cuDeviceGetCount", &count);
}

static int count_libraries(struct dl_phdr_info *info, size_t size, void *counts)
{
	(void)size; /* glibc has both since 2.4 */
	*(struct ct_load_counts *)counts = (struct ct_load_counts){info->dlpi_adds, info->dlpi_subs};
	return 1;
}

struct ct_load_counts ct_load_counts(void)
{
	struct ct_load_counts counts = {0};
	dl_iterate_phdr(count_libraries, &counts);
	return counts;
}

bool ct_load(struct ct_cupti *api, const struct ct_candidate *list, unsigned count)
{
	uint32_t driver = ct_load_driver();
	uint32_t newest = driver ? driver / 1000 : UINT32_MAX;
	for (size_t i = 0; i < SONAMES; i++)
		if (open_one(sonames[i].soname, RTLD_NOLOAD, driver, api))
			return true;
	if (would_hang()) {
		snprintf(found_path, sizeof found_path, "%s", count > 0 ? list[0].path : sonames[0].soname);
		snprintf(error_text, sizeof error_text,
			 "a program built with -fsanitize=leak hangs while it is loaded: use -fsanitize=address, "
			 "which finds leaks, too");
		return false;
	}
	for (unsigned i = 0; i < count; i++)
		if (list[i].major <= newest && open_one(list[i].path, 0, driver, api))
			return true;
	for (size_t i = 0; i < SONAMES; i++)
		if (sonames[i].major <= newest && open_one(sonames[i].soname, 0, driver, api))
			return true;
	if (!error_text[0])
		snprintf(error_text, sizeof error_text, "no libcupti was found");
	return false;
}

/*
 * What CUPTI has refused, in words for a person. enable.c adds to them and main.c sends them; they follow one another,
 * so there is no lock.
 */
static char complaints[1024];

const char *ct_complaints(void)
{
	return complaints;
}

void ct_complaints_clear(void)
{
	complaints[0] = 0;
}

void ct_complain(const char *what, const char *more)
{
	size_t used = strlen(complaints);
	snprintf(complaints + used, sizeof complaints - used, "%s%s%s", used ? "; " : "", what, more);
}

/* A function of CUPTI has failed. */
void ct_complain_of(const struct ct_cupti *api, const char *what, const char *which, ct_result r)
{
	const char *words = NULL;
	char why[256];
	if (api->get_result_string(r, &words) != 0)
		words = NULL;
	snprintf(why, sizeof why, "%s failed: %s (error %d)", which, words ? words : "no words for it", r);
	ct_complain(what, why);
}
