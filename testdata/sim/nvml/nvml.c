/*
 * A simulated libnvidia-ml.so.1: GPUs as the simulated driver has them, in the opposite order, with
 * values that follow from the time alone, so that a test can compare what was recorded with what was.
 *
 *   power        100 W and a watt more each 20 ms of CLOCK_REALTIME, up to 199 W, then from 100 W again
 *   SM clock     1980 MHz; memory clock 3201 MHz; temperatures 40 and 45 degrees, and one more each GPU
 *   reasons      the power cap in every second half second of CLOCK_MONOTONIC, else none
 *   utilisation  CUDASIM_NVML_UTILIZATION (37) and 12 %; memory in use: 1 GiB
 *   GPM          counters that move every 100 ms of CLOCK_MONOTONIC, see gpm.c
 */
#include <stdio.h>
#include <string.h>

#include "../common/clock.h"
#include "../common/config.h"
#include "nvml_sim.h"

#define INIT_ERROR 9 /* NVML_ERROR_DRIVER_NOT_LOADED */
#define UNKNOWN 999
#define NOT_SUPPORTED 3
#define INVALID 2
#define SHORT 7
#define NO_DATA 14
#define HISTORY 119
#define STEP_US 20000u
#define CHARACTERS "cudasim-device-"

uint32_t nvml_sim_ordinal(void *device)
{
	return (uint32_t)((char *)device - (char *)0x1000);
}

static void *handle(uint32_t ordinal)
{
	return (char *)0x1000 + ordinal;
}

bool nvml_sim_fails(uint64_t *readings)
{
	uint64_t from = sim_config()->nvml_fail_from, n = (*readings)++;
	return n >= from && n < from + sim_config()->nvml_fail;
}

EXPORT int nvmlInit_v2(void)
{
	return (int)sim_config()->nvml_init_error;
}

EXPORT const char *nvmlErrorString(int error)
{
	return error == INIT_ERROR ? "Driver Not Loaded" : "Unknown Error";
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = (unsigned)sim_config()->devices;
	return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	uint32_t count = (uint32_t)sim_config()->devices;
	if (index >= count)
		return INVALID;
	*device = handle(count - 1 - index); /* CUDA's order is another one */
	return 0;
}

EXPORT int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size)
{
	unsigned char b[16];
	memcpy(b, CHARACTERS, 15);
	b[15] = (unsigned char)nvml_sim_ordinal(device);
	int n = snprintf(uuid, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
	                 b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
	return n < (int)size ? 0 : SHORT;
}

EXPORT int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
	*current = *pending = (unsigned)(sim_config()->nvml_mig >> nvml_sim_ordinal(device) & 1);
	return 0;
}

EXPORT int nvmlDeviceGetClockInfo(void *device, unsigned which, unsigned *mhz)
{
	static uint64_t readings;
	(void)device;
	*mhz = which == 1 ? 1980 : 3201;
	return which == 1 && nvml_sim_fails(&readings) ? UNKNOWN : 0;
}

EXPORT int nvmlDeviceGetTemperature(void *device, unsigned which, unsigned *celsius)
{
	*celsius = 40 + nvml_sim_ordinal(device);
	return which == 0 ? 0 : INVALID;
}

EXPORT int nvmlDeviceGetFieldValues(void *device, int count, struct nvml_sim_field *fields)
{
	for (int i = 0; i < count; i++) {
		fields[i].result = fields[i].field == 82 ? 0 : NOT_SUPPORTED;
		fields[i].type = 1;
		fields[i].value = 45 + nvml_sim_ordinal(device);
	}
	return 0;
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
	(void)device;
	*reasons = sim_now() / 500000000u % 2 ? 4 : 0;
	return 0;
}

EXPORT int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates)
{
	(void)device;
	rates[0] = (unsigned)sim_config()->nvml_utilization;
	rates[1] = 12;
	return 0;
}

EXPORT int nvmlDeviceGetMemoryInfo(void *device, uint64_t *memory)
{
	(void)device;
	memory[0] = SIM_MEMORY;
	memory[2] = 1u << 30;
	memory[1] = memory[0] - memory[2];
	return 0;
}

static uint32_t milliwatts(uint64_t step)
{
	return 100000 + (uint32_t)(step % 100) * 1000;
}

EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *power)
{
	(void)device;
	*power = milliwatts(sim_clock(CLOCK_REALTIME) / 1000 / STEP_US);
	return 0;
}

EXPORT int nvmlDeviceGetSamples(void *device, int kind, unsigned long long after, int *type, unsigned *count, struct nvml_sim_sample *list)
{
	uint64_t newest = sim_clock(CLOCK_REALTIME) / 1000 / STEP_US, step = newest - HISTORY + 1;
	unsigned n = 0;
	(void)device;
	if (kind != 0 || sim_config()->nvml_no_history)
		return NOT_SUPPORTED;
	if (after >= newest * STEP_US)
		return NO_DATA;
	if (step < after / STEP_US + 1)
		step = after / STEP_US + 1;
	for (; step <= newest && n < *count; step++)
		list[n++] = (struct nvml_sim_sample){step * STEP_US, milliwatts(step)};
	*type = 1;
	*count = n;
	return 0;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct nvml_sim_process *list)
{
	uint64_t pids[] = {sim_config()->nvml_pid, sim_config()->nvml_other_pid};
	unsigned n = 0;
	(void)device;
	for (size_t i = 0; i < sizeof pids / sizeof pids[0]; i++)
		if (pids[i] > 0 && n < *count)
			list[n++] = (struct nvml_sim_process){.pid = (uint32_t)pids[i], .memory = 512u << 20};
	*count = n;
	return 0;
}

EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active)
{
	(void)device;
	*active = sim_config()->nvml_nvlink && link < 2;
	return link < 18 ? 0 : INVALID;
}
