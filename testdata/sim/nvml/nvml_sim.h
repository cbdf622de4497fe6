/* The ABI of libnvidia-ml.so.1, as far as it is simulated. */
#ifndef NVML_SIM_H
#define NVML_SIM_H

#include <stdbool.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

struct nvml_sim_field {
	uint32_t field, scope;
	int64_t timestamp, latency;
	uint32_t type;
	int result;
	uint64_t value;
};

struct nvml_sim_sample {
	uint64_t time, value;
};

struct nvml_sim_process {
	uint32_t pid;
	uint64_t memory;
	uint32_t gpu_instance, compute_instance;
};

struct nvml_sim_gpm_support {
	uint32_t version, supported;
};

struct nvml_sim_gpm_metric {
	uint32_t id;
	int result;
	double value;
	char *names[3];
};

struct nvml_sim_gpm_get {
	uint32_t version, count;
	void *before, *after;
	struct nvml_sim_gpm_metric metrics[];
};

/* The number that CUDA gives a device. */
uint32_t nvml_sim_ordinal(void *device);

/* Whether a reading fails, by CUDASIM_NVML_FAIL; counts the readings. */
bool nvml_sim_fails(uint64_t *readings);

int nvmlInit_v2(void);
const char *nvmlErrorString(int error);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size);
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending);
int nvmlDeviceGetClockInfo(void *device, unsigned which, unsigned *mhz);
int nvmlDeviceGetTemperature(void *device, unsigned which, unsigned *celsius);
int nvmlDeviceGetFieldValues(void *device, int count, struct nvml_sim_field *fields);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons);
int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates);
int nvmlDeviceGetMemoryInfo(void *device, uint64_t *memory);
int nvmlDeviceGetPowerUsage(void *device, unsigned *power);
int nvmlDeviceGetSamples(void *device, int kind, unsigned long long after, int *type, unsigned *count, struct nvml_sim_sample *list);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct nvml_sim_process *list);
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active);
int nvmlGpmQueryDeviceSupport(void *device, struct nvml_sim_gpm_support *support);
int nvmlGpmSampleAlloc(void **sample);
int nvmlGpmSampleFree(void *sample);
int nvmlGpmSampleGet(void *device, void *sample);
int nvmlGpmMetricsGet(struct nvml_sim_gpm_get *get);

#endif
