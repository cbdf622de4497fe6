#include "cupti.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "library.h"
#include "wire.h"

#define CUDA_FILE "libcuda.so.1"

struct gs_cupti gs_cupti;

static struct {
	int (*cuInit)(unsigned);
	int (*cuDeviceGetCount)(int *);
	int (*cuDeviceGetUuid)(unsigned char *, int); /* the CUdevice is the ordinal */
} cuda;

static const struct gs_function cuda_functions[] = {
	{"cuInit", 0, true},
	{"cuDeviceGetCount", sizeof(void *), true},
	{"cuDeviceGetUuid", 2 * sizeof(void *), true},
};

static const struct gs_function cupti_functions[] = {
	{"cuptiActivityRegisterTimestampCallback", offsetof(struct gs_cupti, cuptiActivityRegisterTimestampCallback), true},
	{"cuptiGetResultString", offsetof(struct gs_cupti, cuptiGetResultString), false},
#define CUPTI(name) {#name, offsetof(struct gs_cupti, name), true},
#include "cupti.def"
#undef CUPTI
};
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

bool gs_cupti_ok(int result, const char *function, struct gs_trouble *t)
{
	const char *name = NULL;
	switch (result) {
	case CUPTI_SUCCESS:
		return true;
	case CUPTI_ERROR_HARDWARE_BUSY:
		t->why = GS_BUSY;
		break;
	case CUPTI_ERROR_NO_RIGHTS:
	case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
		t->why = GS_NO_RIGHTS;
		break;
	case CUPTI_ERROR_INVALID_DEVICE:
	case CUPTI_ERROR_NOT_SUPPORTED:
		t->why = GS_OLD_GPU;
		break;
	default:
		t->why = GS_BROKEN;
	}
	if (!gs_cupti.cuptiGetResultString || gs_cupti.cuptiGetResultString(result, &name) != 0 || !name)
		name = "unknown";
	snprintf(t->text, sizeof t->text, "%s: error %d (%s)", function, result, name);
	return false;
}

static void *load(const char *file, struct gs_trouble *t)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	const char *why = library ? NULL : dlerror();
	if (!library) {
		t->why = GS_NO_LIBRARY;
		snprintf(t->text, sizeof t->text, "%s", why ? why : file);
	}
	return library;
}

/* libcupti looks for these two by name: those of its own release lie beside it. */
static void load_helpers(const char *path)
{
	static const char *const names[] = {"libnvperf_host.so", "libnvperf_target.so"};
	const char *slash = strrchr(path, '/');
	char file[4096];
	for (size_t i = 0; slash && i < COUNT(names); i++) {
		int n = snprintf(file, sizeof file, "%.*s/%s", (int)(slash - path), path, names[i]);
		if (n > 0 && (size_t)n < sizeof file)
			dlopen(file, RTLD_NOW | RTLD_GLOBAL); /* where there is none, libcupti says what it lacks */
	}
}

static uint64_t timestamp(void)
{
	return gs_now();
}

static bool start_cuda(struct gs_trouble *t)
{
	int r = cuda.cuInit(0);
	if (r != 0) {
		t->why = GS_NO_CUDA;
		snprintf(t->text, sizeof t->text, "cuInit: error %d", r);
	}
	return r == 0;
}

bool gs_no_memory(struct gs_trouble *t, size_t length)
{
	t->why = GS_BROKEN;
	snprintf(t->text, sizeof t->text, "no memory for %zu bytes", length);
	return false;
}

bool gs_cupti_open(const char *path, struct gs_trouble *t)
{
	struct cupti_initialize block = {.size = CUPTI_SIZE(struct cupti_initialize, zero)};
	void *driver = load(CUDA_FILE, t);
	t->why = GS_NO_CUDA;
	if (!driver || !gs_resolve(driver, CUDA_FILE, cuda_functions, COUNT(cuda_functions), &cuda, t->text, sizeof t->text))
		return false;
	load_helpers(path);
	void *cupti = load(path, t);
	if (!cupti)
		return false;
	t->why = GS_OLD_LIBRARY;
	if (!gs_resolve(cupti, path, cupti_functions, COUNT(cupti_functions), &gs_cupti, t->text, sizeof t->text))
		return false;
	return GS_CUPTI(cuptiActivityRegisterTimestampCallback, timestamp, t) && start_cuda(t) &&
	       GS_CUPTI(cuptiProfilerInitialize, &block, t);
}

uint32_t gs_cuda_devices(void)
{
	int n;
	if (cuda.cuDeviceGetCount(&n) != 0 || n < 0)
		return 0;
	return n < GS_DEVICES_MAX ? (uint32_t)n : GS_DEVICES_MAX;
}

bool gs_cuda_uuid(uint32_t device, char *text, unsigned size)
{
	unsigned char u[16];
	if (cuda.cuDeviceGetUuid(u, (int)device) != 0)
		return false;
	snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3], u[4],
	         u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	return true;
}
