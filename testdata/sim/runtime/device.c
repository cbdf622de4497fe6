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
