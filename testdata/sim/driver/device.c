#include <stdio.h>
#include <string.h>

#include "internal.h"

#define DEVICE_NAME "NVIDIA H200 (simulated)"

static bool valid(CUdevice dev)
{
	return dev >= 0 && (uint64_t)dev < sim_config()->devices;
}

int sim_device_info(int ordinal, struct sim_device_info *info)
{
	if (!valid(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*info = (struct sim_device_info){
		.id = (uint32_t)ordinal,
		.name = DEVICE_NAME,
		.memory = SIM_MEMORY,
		.bandwidth = 4814304000u,
		.multiprocessors = 132,
		.major = 9,
	};
	memcpy(info->uuid, "cudasim-device-", 15);
	info->uuid[15] = (uint8_t)ordinal;
	return CUDA_SUCCESS;
}

static CUresult device_count(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	*count = (int)sim_config()->devices;
	return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid *uuid, CUdevice dev)
{
	struct sim_device_info info;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = sim_device_info(dev, &info);
	if (!r)
		memcpy(uuid->bytes, info.uuid, 16);
	return r;
}

DRIVER(cuDeviceGetCount, (int *count), device_count(count))
DRIVER(cuDeviceGetUuid, (CUuuid *uuid, CUdevice dev), device_uuid(uuid, dev))
DRIVER(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice dev), device_uuid(uuid, dev))
