#include <dlfcn.h>
#include <pthread.h>

#include "internal.h"

struct sim_hook *sim_rt_hook;
struct sim_driver sim_drv, sim_drv_own;

enum { LEGACY_STREAM = 1, OWN_STREAM = 2 }; /* flags of cuGetProcAddress */

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int loaded = -1; /* the result of loading, -1 before loading */
static CUcontext primary[16];
static _Atomic unsigned epoch = 1; /* changes when contexts are reset */

static _Thread_local struct {
	int device;
	unsigned bound; /* epoch at which device's context was made current */
	int error;
} self;

static int load(void)
{
	static const char *const names[] = {
#define F(name, params) #name,
		SIM_DRIVER_FUNCTIONS(F)
#undef F
	};
	CUresult (*get)(const char *, void **, int, uint64_t, int *) = NULL;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver)
		return cudaErrorInsufficientDriver;
	*(void **)&get = dlsym(driver, "cuGetProcAddress_v2");
	if (!get)
		return cudaErrorInsufficientDriver;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (get(names[i], (void **)&sim_drv + i, 13000, LEGACY_STREAM, NULL) ||
		    get(names[i], (void **)&sim_drv_own + i, 13000, OWN_STREAM, NULL))
			return cudaErrorInsufficientDriver;
	struct sim_hook *hook = dlsym(driver, SIM_HOOK_SYMBOL);
	int r = sim_drv.cuInit(0);
	if (hook && hook->version == SIM_HOOK_VERSION)
		sim_rt_hook = hook;
	return r;
}

int sim_rt_init(void)
{
	int r = atomic_load_explicit(&loaded, memory_order_acquire);
	if (r >= 0)
		return r;
	pthread_mutex_lock(&mu);
	r = atomic_load(&loaded);
	if (r < 0) {
		r = load();
		atomic_store_explicit(&loaded, r, memory_order_release);
	}
	pthread_mutex_unlock(&mu);
	return r;
}

int sim_rt_context(int device, CUcontext *out)
{
	int count, r = sim_drv.cuDeviceGetCount(&count);
	if (r || device < 0 || device >= count)
		return r ? r : cudaErrorInvalidDevice;
	pthread_mutex_lock(&mu);
	r = primary[device] ? 0 : sim_drv.cuDevicePrimaryCtxRetain(&primary[device], device);
	*out = primary[device];
	pthread_mutex_unlock(&mu);
	return r;
}

int sim_rt_bind(void)
{
	CUcontext ctx;
	unsigned now = atomic_load_explicit(&epoch, memory_order_relaxed);
	if (__builtin_expect(self.bound == now, 1))
		return 0;
	int r = sim_rt_context(self.device, &ctx);
	if (!r)
		r = sim_drv.cuCtxSetCurrent(ctx);
	if (!r)
		self.bound = now;
	return r;
}

int sim_rt_set_device(int device)
{
	int count, r = sim_drv.cuDeviceGetCount(&count);
	if (r || device < 0 || device >= count)
		return r ? r : cudaErrorInvalidDevice;
	if (device != self.device)
		self.bound = 0;
	self.device = device;
	return sim_rt_bind();
}

int sim_rt_reset(void)
{
	pthread_mutex_lock(&mu);
	primary[self.device] = NULL;
	atomic_fetch_add(&epoch, 1);
	pthread_mutex_unlock(&mu);
	return sim_drv.cuDevicePrimaryCtxReset(self.device);
}

int sim_rt_fail(int error)
{
	if (__builtin_expect(error && error != cudaErrorNotReady, 0))
		self.error = error;
	return error;
}

static int last_error(bool clear)
{
	int r = self.error;
	if (clear)
		self.error = 0;
	return r;
}

/* These two return an error without failing, so they do not store it. */
#define LAST_ERROR(name, clear) \
	SIM_EXPORT cudaError_t name(void) \
	{ \
		struct sim_frame f; \
		sim_frame_enter(sim_rt_hook, &f, SIM_RUNTIME, CBID_##name); \
		return sim_frame_exit(sim_rt_hook, &f, last_error(clear)); \
	}

LAST_ERROR(cudaGetLastError, true)
