/* The kernels of host stubs. Constructors fill this table before main (and
 * by libraries that are opened later), read without a lock at each launch. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

#define SLOTS 8192u

struct fatbin {
	const struct sim_fatbin *wrapper;
	CUlibrary library;
};

struct entry {
	_Atomic(const void *) host;
	const char *name;
	struct fatbin *fatbin;
	_Atomic(CUfunction) function; /* resolved at the first launch */
	int error;		      /* of the look-up, which is not tried again */
};

/* A variable of the device, and its counterpart in the program. */
struct variable {
	const void *host;
	const char *name;
	struct fatbin *fatbin;
};

static struct variable variables[256];
static size_t variable_count;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct entry entries[SLOTS];
static unsigned used;

static struct entry *slot(const void *host)
{
	uintptr_t i = ((uintptr_t)host >> 4) * 0x9e3779b97f4a7c15u >> 32;
	for (;; i++) {
		struct entry *e = &entries[i % SLOTS];
		const void *at = atomic_load_explicit(&e->host, memory_order_acquire);
		if (at == host || !at)
			return e;
	}
}

/* With mu held. */
static int load(struct fatbin *f)
{
	return f->library ? 0 : sim_drv.cuLibraryLoadData(&f->library, f->wrapper->data, NULL, NULL, 0, NULL, NULL, 0);
}

static int resolve(struct entry *e, CUfunction *out)
{
	pthread_mutex_lock(&mu);
	int r = e->error ? e->error : load(e->fatbin);
	if (!r)
		r = e->error = sim_drv.cuLibraryGetKernel(out, e->fatbin->library, e->name);
	if (!r)
		atomic_store_explicit(&e->function, *out, memory_order_release);
	pthread_mutex_unlock(&mu);
	return r;
}

int sim_rt_function(const void *host, CUfunction *out)
{
	if (!host)
		return cudaErrorInvalidDeviceFunction;
	struct entry *e = slot(host);
	if (!atomic_load_explicit(&e->host, memory_order_acquire))
		return cudaErrorInvalidResourceHandle; /* as CUDA 13 returns, seen on an H200 */
	*out = atomic_load_explicit(&e->function, memory_order_acquire);
	return *out ? 0 : resolve(e, out);
}

int sim_rt_symbol(const void *host, CUdeviceptr *at, size_t *size)
{
	int r = 13; /* cudaErrorInvalidSymbol */
	pthread_mutex_lock(&mu);
	for (size_t i = 0; i < variable_count; i++) {
		if (variables[i].host != host)
			continue;
		r = load(variables[i].fatbin);
		if (!r)
			r = sim_drv.cuLibraryGetGlobal(at, size, variables[i].fatbin->library, variables[i].name);
	}
	pthread_mutex_unlock(&mu);
	return r;
}

/* The runtime loads a kernel's code before the launch is announced, so that the
 * driver's calls for it are calls of their own. */
int sim_rt_prepare_launch(const void *host)
{
	CUfunction unused;
	int r = sim_rt_init();
	if (!r)
		sim_rt_function(host, &unused);
	return r;
}

SIM_EXPORT void **__cudaRegisterFatBinary(void *wrapper)
{
	const struct sim_fatbin *w = wrapper;
	struct fatbin *f = calloc(1, sizeof *f);
	if (!f || w->magic != SIM_FATBIN_MAGIC) {
		fputs("cudasim: __cudaRegisterFatBinary: not a simulated image\n", stderr);
		abort();
	}
	f->wrapper = w;
	return (void **)f;
}

SIM_EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

/* Kernels of an image that goes away stay known: programs unregister at exit
 * only, while launches may still be running. */
SIM_EXPORT void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

SIM_EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
				       int thread_limit, void *tid, void *bid, void *block, void *grid, int *warp)
{
	(void)device, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
	pthread_mutex_lock(&mu);
	struct entry *e = slot(host);
	if (!atomic_load(&e->host)) {
		if (++used > SLOTS / 2) {
			fputs("cudasim: __cudaRegisterFunction: too many kernels\n", stderr);
			abort();
		}
		e->name = name;
		e->fatbin = (struct fatbin *)handle;
		atomic_store_explicit(&e->host, host, memory_order_release);
	}
	pthread_mutex_unlock(&mu);
}

SIM_EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size,
				  int constant, int global)
{
	(void)device, (void)external, (void)size, (void)constant, (void)global;
	pthread_mutex_lock(&mu);
	if (variable_count == sizeof variables / sizeof *variables) {
		fputs("cudasim: __cudaRegisterVar: too many variables\n", stderr);
		abort();
	}
	variables[variable_count++] = (struct variable){host, name, (struct fatbin *)handle};
	pthread_mutex_unlock(&mu);
}
