/* Records of devices, contexts and streams. */
#include <string.h>

#include "internal.h"

#define COMPUTE_API_CUDA 1

static void device(const struct sim_device_info *d)
{
	CUptiDevice r = {
		.kind = CUPTI_KIND_DEVICE, .flags = 1 /* CONCURRENT_KERNELS */, .globalMemoryBandwidth = d->bandwidth, .globalMemorySize = d->memory,
		.constantMemorySize = 65536, .l2CacheSize = 62914560, .numThreadsPerWarp = 32, .coreClockRate = 1980000,
		.numMemcpyEngines = 3, .numMultiprocessors = d->multiprocessors, .maxIPC = 4,
		.maxWarpsPerMultiprocessor = 64, .maxBlocksPerMultiprocessor = 32,
		.maxSharedMemoryPerMultiprocessor = 233472, .maxRegistersPerMultiprocessor = 65536,
		.maxRegistersPerBlock = 65536, .maxSharedMemoryPerBlock = 49152, .maxThreadsPerBlock = 1024,
		.maxBlockDim = {1024, 1024, 64}, .maxGridDim = {2147483647, 65535, 65535},
		.computeCapabilityMajor = d->major, .computeCapabilityMinor = d->minor, .id = d->id, .eccEnabled = 1,
		.name = d->name, .isCudaVisible = 1,
	};
	memcpy(r.uuid, d->uuid, sizeof r.uuid);
	cupti_store(&r, sizeof r);
}

static void devices(void)
{
	struct sim_device_info info;
	for (int i = 0; cupti_hook()->device(i, &info) == 0; i++)
		device(&info);
}

void cupti_on_context(const struct sim_context_info *c)
{
	CUptiContext r = {
		.kind = CUPTI_KIND_CONTEXT, .contextId = c->id, .deviceId = c->device,
		.computeApiKind = COMPUTE_API_CUDA, .nullStreamId = (uint16_t)c->null_stream, .numMultiprocessors = 132,
	};
	if (cupti_kind(CUPTI_KIND_CONTEXT))
		cupti_store(&r, sizeof r);
}

void cupti_on_stream(const struct sim_stream_info *s)
{
	CUptiStream r = {
		.kind = CUPTI_KIND_STREAM, .contextId = s->context, .streamId = s->id, .priority = (uint32_t)s->priority,
		.flag = s->kind, .correlationId = s->correlation,
	};
	if (cupti_kind(CUPTI_KIND_STREAM))
		cupti_store(&r, sizeof r);
}

void cupti_announce(uint32_t kind)
{
	if (kind == CUPTI_KIND_DEVICE && !cupti_late())
		devices();
	if (kind == CUPTI_KIND_CONTEXT && !cupti_late())
		cupti_hook()->contexts(cupti_on_context);
	if (kind == CUPTI_KIND_STREAM)
		cupti_hook()->streams(cupti_on_stream);
}
