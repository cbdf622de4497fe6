/* What the sampler uses of NVML's binary interface, as NVIDIA's nvml.h has it. */
#ifndef GS_NVML_ABI_H
#define GS_NVML_ABI_H

#include <stdint.h>

typedef int nvml_return; /* 0: success */
typedef void *nvml_device;
typedef void *nvml_gpm_sample;

#define NVML_NOT_FOUND 6 /* no sample, by the documentation */
#define NVML_NO_DATA 14 /* no sample is newer than the one that was named */
#define NVML_INSUFFICIENT_SIZE 7

#define NVML_CLOCK_SM 1
#define NVML_CLOCK_MEM 2
#define NVML_TEMPERATURE_GPU 0
#define NVML_FIELD_MEMORY_TEMPERATURE 82
#define NVML_SAMPLES_POWER 0
#define NVML_NVLINKS 18

#define NVML_VALUE_UINT 1
#define NVML_NOT_KNOWN UINT64_MAX /* memory of a process */

struct nvml_utilization {
	unsigned gpu, memory; /* percent */
};

struct nvml_memory {
	uint64_t total, free, used; /* bytes */
};

struct nvml_field {
	uint32_t field, scope;
	int64_t timestamp, latency;
	uint32_t type;
	nvml_return result;
	union {
		uint32_t u32;
		uint64_t u64;
		double d;
	} value;
};

struct nvml_sample {
	uint64_t time; /* CLOCK_REALTIME, microseconds */
	union {
		uint32_t u32;
		uint64_t u64;
	} value;
};

struct nvml_process {
	uint32_t pid;
	uint64_t memory;
	uint32_t gpu_instance, compute_instance;
};

#define NVML_GPM_VERSION 1

struct nvml_gpm_support {
	uint32_t version, supported;
};

struct nvml_gpm_metric {
	uint32_t id;
	nvml_return result;
	double value;
	char *short_name, *long_name, *unit;
};

#define NVML_GPM_METRICS_MAX 333 /* room in the library's own struct, CUDA 13.0 */

struct nvml_gpm_get {
	uint32_t version, count;
	nvml_gpm_sample before, after;
	struct nvml_gpm_metric metrics[NVML_GPM_METRICS_MAX];
};

_Static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t");
_Static_assert(sizeof(struct nvml_sample) == 16, "nvmlSample_t");
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_t");
_Static_assert(sizeof(struct nvml_gpm_metric) == 40, "nvmlGpmMetric_t");

#endif
