#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

enum { FRESH, RUNNING, DONE };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Atomic int state = FRESH;
static pthread_t initialiser;
static _Atomic bool forked;

static void in_child(void)
{
	if (atomic_load(&state) != FRESH)
		atomic_store(&forked, true);
}

bool sim_forked(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed);
}

bool sim_ready(void)
{
	return atomic_load_explicit(&state, memory_order_acquire) != FRESH && !sim_forked();
}

bool sim_started(void)
{
	return atomic_load_explicit(&state, memory_order_acquire) == DONE;
}

/* The driver maps a device in cuInit, by which it is known to be initialised; libcuda itself NVML maps as well.
 * Here a file below this library's folder stands for the device. */
static void map_device(void)
{
	Dl_info here;
	char path[4096];
	const char *end;
	int device;
	if (!dladdr(&state, &here) || !(end = strrchr(here.dli_fname, '/')))
		return;
	snprintf(path, sizeof path, "%.*s/dev/nvidia-uvm", (int)(end - here.dli_fname), here.dli_fname);
	device = open(path, O_RDONLY | O_CLOEXEC);
	if (device >= 0) {
		mmap(NULL, 1, PROT_READ, MAP_SHARED, device, 0);
		close(device);
	}
}

/* A library that cannot be loaded changes nothing, as in the real driver. */
static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*initialize)(void) = NULL;
	if (!library)
		return;
	*(void **)&initialize = dlsym(library, "InitializeInjection");
	if (initialize)
		initialize();
}

/* True for the thread that initialises. A second one waits for it; the first may come back in through the
 * injected library. */
static bool is_first(void)
{
	bool mine = false;
	pthread_mutex_lock(&mu);
	if (atomic_load(&state) == FRESH) {
		atomic_store(&state, RUNNING);
		initialiser = pthread_self();
		mine = true;
	} else if (!pthread_equal(initialiser, pthread_self())) {
		while (atomic_load(&state) == RUNNING)
			pthread_cond_wait(&changed, &mu);
	}
	pthread_mutex_unlock(&mu);
	return mine;
}

CUresult sim_init(unsigned flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_forked())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (sim_config()->devices == 0)
		return CUDA_ERROR_NO_DEVICE;
	if (atomic_load_explicit(&state, memory_order_acquire) == DONE || !is_first())
		return CUDA_SUCCESS;
	pthread_atfork(NULL, NULL, in_child);
	cudasim_hook.counts = sim_config()->finalize_check || sim_config()->starves;
	map_device();
	inject();
	pthread_mutex_lock(&mu);
	atomic_store(&state, DONE);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mu);
	return CUDA_SUCCESS;
}

static CUresult driver_version(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 13000;
	return CUDA_SUCCESS;
}

DRIVER(cuInit, (unsigned flags), sim_init(flags))
DRIVER(cuDriverGetVersion, (int *version), driver_version(version))
/* For tools between program and driver; not recorded here. */
DRIVER(cuProfilerStart, (void), sim_ready() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED)
DRIVER(cuProfilerStop, (void), sim_ready() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED)
