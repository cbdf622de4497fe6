#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

#define DEVICE_NAME "NVIDIA H200 (simulated)"

/* CUdevice_attribute numbers and their values. */
static const struct {
	int attribute, value;
} attributes[] = {
	{1, 1024},   /* MAX_THREADS_PER_BLOCK */
	{2, 1024},   /* MAX_BLOCK_DIM_X */
	{3, 1024},   /* MAX_BLOCK_DIM_Y */
	{4, 64},     /* MAX_BLOCK_DIM_Z */
	{5, 2147483647}, /* MAX_GRID_DIM_X */
	{6, 65535},  /* MAX_GRID_DIM_Y */
	{7, 65535},  /* MAX_GRID_DIM_Z */
	{8, 49152},  /* MAX_SHARED_MEMORY_PER_BLOCK */
	{10, 32},    /* WARP_SIZE */
	{13, 1980000}, /* CLOCK_RATE, kHz */
	{16, 132},   /* MULTIPROCESSOR_COUNT */
	{31, 1},     /* CONCURRENT_KERNELS */
	{40, 3},     /* ASYNC_ENGINE_COUNT */
	{41, 1},     /* UNIFIED_ADDRESSING */
	{75, 9},     /* COMPUTE_CAPABILITY_MAJOR */
	{76, 0},     /* COMPUTE_CAPABILITY_MINOR */
};

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

static CUresult device_get(CUdevice *dev, int ordinal)
{
	if (!dev)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!valid(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = ordinal;
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

static CUresult device_name(char *name, int len, CUdevice dev)
{
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	size_t n = sizeof DEVICE_NAME - 1;
	if (n > (size_t)len - 1)
		n = (size_t)len - 1;
	memcpy(name, DEVICE_NAME, n);
	name[n] = 0;
	return CUDA_SUCCESS;
}

static CUresult device_attribute(int *value, int attribute, CUdevice dev)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
		if (attributes[i].attribute == attribute) {
			*value = attributes[i].value;
			return CUDA_SUCCESS;
		}
	}
	*value = 0;
	return attribute > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult device_memory(size_t *bytes, CUdevice dev)
{
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = SIM_MEMORY;
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

static CUresult bus_id(char *out, int len, CUdevice dev)
{
	if (!out || len < 13) /* 12 characters and an end */
		return CUDA_ERROR_INVALID_VALUE;
	if (!valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(out, (size_t)len, "0000:%02hhX:00.0", (unsigned char)(dev + 1));
	return CUDA_SUCCESS;
}

static CUresult by_bus_id(CUdevice *dev, const char *text)
{
	char id[32];
	if (!dev || !text)
		return CUDA_ERROR_INVALID_VALUE;
	for (CUdevice i = 0; valid(i); i++) {
		bus_id(id, sizeof id, i);
		if (!strcasecmp(id, text)) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

static CUresult capability(int *major, int *minor, CUdevice dev)
{
	CUresult r = device_attribute(major, 75, dev);
	return r ? r : device_attribute(minor, 76, dev);
}

DRIVER(cuDeviceGetPCIBusId, (char *out, int len, CUdevice dev), bus_id(out, len, dev))
DRIVER(cuDeviceGetByPCIBusId, (CUdevice *dev, const char *id), by_bus_id(dev, id))
DRIVER(cuDeviceComputeCapability, (int *major, int *minor, CUdevice dev), capability(major, minor, dev))
DRIVER(cuDeviceGet, (CUdevice *dev, int ordinal), device_get(dev, ordinal))
DRIVER(cuDeviceGetCount, (int *count), device_count(count))
DRIVER(cuDeviceGetName, (char *name, int len, CUdevice dev), device_name(name, len, dev))
DRIVER(cuDeviceGetAttribute, (int *value, int attribute, CUdevice dev), device_attribute(value, attribute, dev))
DRIVER(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice dev), device_memory(bytes, dev))
DRIVER(cuDeviceGetUuid, (CUuuid *uuid, CUdevice dev), device_uuid(uuid, dev))
DRIVER(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice dev), device_uuid(uuid, dev))
