#include <string.h>

#include "internal.h"

#define RUNTIME_VERSION 13000
#define PROP_SIZE 1008 /* bytes of cudaDeviceProp in CUDA 13 */

static int store(int *out, int value)
{
	if (!out)
		return cudaErrorInvalidValue;
	*out = value;
	return 0;
}

static int properties(void *out, int device)
{
	cudaDevicePropHead head = {
		.sharedMemPerBlock = 49152, .regsPerBlock = 65536, .warpSize = 32, .memPitch = 2147483647,
		.totalConstMem = 65536, .multiProcessorCount = 132, .maxThreadsPerBlock = 1024, .maxThreadsDim = {1024, 1024, 64}, .maxGridSize = {2147483647, 65535, 65535},
	};
	if (!out)
		return cudaErrorInvalidValue;
	int r = sim_drv.cuDeviceGetAttribute(&head.major, 75, device);
	if (!r)
		r = sim_drv.cuDeviceGetAttribute(&head.minor, 76, device);
	if (!r)
		r = sim_drv.cuDeviceGetName(head.name, sizeof head.name, device);
	if (!r)
		r = sim_drv.cuDeviceGetUuid(&head.uuid, device);
	if (!r)
		r = sim_drv.cuDeviceTotalMem(&head.totalGlobalMem, device);
	if (r)
		return r;
	memset(out, 0, PROP_SIZE);
	memcpy(out, &head, sizeof head);
	return 0;
}

static int peer_access(int peer, bool on, unsigned flags)
{
	CUcontext ctx;
	int r = sim_rt_context(peer, &ctx);
	if (r)
		return r;
	return on ? sim_drv.cuCtxEnablePeerAccess(ctx, flags) : sim_drv.cuCtxDisablePeerAccess(ctx);
}

RUNTIME_BARE(cudaDriverGetVersion, (int *version), sim_drv.cuDriverGetVersion(version))
RUNTIME_BARE(cudaRuntimeGetVersion, (int *version), store(version, RUNTIME_VERSION))
RUNTIME_BARE(cudaGetDeviceCount, (int *count), sim_drv.cuDeviceGetCount(count))
RUNTIME_BARE(cudaSetDevice, (int device), sim_rt_set_device(device))
RUNTIME_BARE(cudaGetDevice, (int *device), store(device, sim_rt_device()))
RUNTIME_BARE(cudaDeviceGetAttribute, (int *value, int attribute, int device),
	     sim_drv.cuDeviceGetAttribute(value, attribute, device))
RUNTIME_BARE(cudaGetDeviceProperties, (void *out, int device), properties(out, device))
RUNTIME(cudaDeviceSynchronize, (void), sim_drv.cuCtxSynchronize())
RUNTIME_BARE(cudaDeviceReset, (void), sim_rt_reset())
RUNTIME(cudaDeviceGetLimit, (size_t *out, int which), sim_drv.cuCtxGetLimit(out, which))
RUNTIME(cudaDeviceSetLimit, (int which, size_t value), sim_drv.cuCtxSetLimit(which, value))
RUNTIME(cudaDeviceGetCacheConfig, (int *config), sim_drv.cuCtxGetCacheConfig(config))
RUNTIME(cudaDeviceSetCacheConfig, (int config), sim_drv.cuCtxSetCacheConfig(config))
RUNTIME(cudaDeviceGetSharedMemConfig, (int *config), sim_drv.cuCtxGetSharedMemConfig(config))
RUNTIME(cudaDeviceSetSharedMemConfig, (int config), sim_drv.cuCtxSetSharedMemConfig(config))
RUNTIME(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest), sim_drv.cuCtxGetStreamPriorityRange(least, greatest))
RUNTIME(cudaCtxResetPersistingL2Cache, (void), sim_drv.cuCtxResetPersistingL2Cache())
RUNTIME_BARE(cudaDeviceGetPCIBusId, (char *out, int len, int device), sim_drv.cuDeviceGetPCIBusId(out, len, device))
RUNTIME_BARE(cudaDeviceGetByPCIBusId, (int *device, const char *id), sim_drv.cuDeviceGetByPCIBusId(device, id))
RUNTIME_BARE(cudaDeviceCanAccessPeer, (int *out, int device, int peer), sim_drv.cuDeviceCanAccessPeer(out, device, peer))
RUNTIME_BARE(cudaDeviceGetP2PAttribute, (int *out, int which, int a, int b),
	     sim_drv.cuDeviceGetP2PAttribute(out, which, a, b))
RUNTIME(cudaDeviceEnablePeerAccess, (int peer, unsigned flags), peer_access(peer, true, flags))
RUNTIME(cudaDeviceDisablePeerAccess, (int peer), peer_access(peer, false, 0))
RUNTIME_BARE(cudaSetDeviceFlags, (unsigned flags), sim_drv.cuDevicePrimaryCtxSetFlags(sim_rt_device(), flags))
RUNTIME_BARE(cudaGetDeviceFlags, (unsigned *flags),
	     sim_drv.cuDevicePrimaryCtxGetState(sim_rt_device(), flags, &(int){0}))
RUNTIME_BARE(cudaSetValidDevices, (int *list, int count), list || !count ? 0 : cudaErrorInvalidValue)
RUNTIME_BARE(cudaChooseDevice, (int *device, const void *wish), wish ? store(device, 0) : cudaErrorInvalidValue)
RUNTIME_BARE(cudaInitDevice, (int device, unsigned device_flags, unsigned flags),
	     ((void)device_flags, (void)flags, sim_rt_context(device, &(CUcontext){NULL})))
RUNTIME_BARE(cudaProfilerStart, (void), sim_drv.cuProfilerStart())
RUNTIME_BARE(cudaProfilerStop, (void), sim_drv.cuProfilerStop())
