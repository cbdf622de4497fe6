#include "board.h"

#include <math.h>
#include <stdio.h>

#include "clock.h"
#include "nvml.h"

#define MHZ 1e6

static bool clock_rate(nvml_device d, unsigned which, double *v)
{
	unsigned mhz;
	if (!gs_nvml.nvmlDeviceGetClockInfo || gs_nvml.nvmlDeviceGetClockInfo(d, which, &mhz) != 0)
		return false;
	*v = mhz * MHZ;
	return true;
}

static bool sm_clock(nvml_device d, double *v)
{
	return clock_rate(d, NVML_CLOCK_SM, v);
}

static bool memory_clock(nvml_device d, double *v)
{
	return clock_rate(d, NVML_CLOCK_MEM, v);
}

static bool temperature(nvml_device d, double *v)
{
	unsigned celsius;
	if (!gs_nvml.nvmlDeviceGetTemperature || gs_nvml.nvmlDeviceGetTemperature(d, NVML_TEMPERATURE_GPU, &celsius) != 0)
		return false;
	*v = celsius;
	return true;
}

static bool memory_temperature(nvml_device d, double *v)
{
	struct nvml_field f = {.field = NVML_FIELD_MEMORY_TEMPERATURE};
	if (!gs_nvml.nvmlDeviceGetFieldValues || gs_nvml.nvmlDeviceGetFieldValues(d, 1, &f) != 0 || f.result != 0)
		return false;
	*v = f.value.u32;
	return f.type == NVML_VALUE_UINT;
}

static bool clock_reasons(nvml_device d, double *v)
{
	unsigned long long bits;
	if (!gs_nvml.nvmlDeviceGetCurrentClocksThrottleReasons ||
	    gs_nvml.nvmlDeviceGetCurrentClocksThrottleReasons(d, &bits) != 0)
		return false;
	*v = (double)(bits & 0xffffffff);
	return true;
}

static bool utilization(nvml_device d, struct nvml_utilization *u)
{
	return gs_nvml.nvmlDeviceGetUtilizationRates && gs_nvml.nvmlDeviceGetUtilizationRates(d, u) == 0;
}

static bool gpu_utilization(nvml_device d, double *v)
{
	struct nvml_utilization u;
	bool ok = utilization(d, &u);
	*v = ok ? u.gpu : 0;
	return ok;
}

static bool memory_utilization(nvml_device d, double *v)
{
	struct nvml_utilization u;
	bool ok = utilization(d, &u);
	*v = ok ? u.memory : 0;
	return ok;
}

static bool memory_used(nvml_device d, double *v)
{
	struct nvml_memory m;
	if (!gs_nvml.nvmlDeviceGetMemoryInfo || gs_nvml.nvmlDeviceGetMemoryInfo(d, &m) != 0)
		return false;
	*v = (double)m.used;
	return true;
}

static bool power(nvml_device d, double *v)
{
	unsigned milliwatts;
	if (!gs_nvml.nvmlDeviceGetPowerUsage || gs_nvml.nvmlDeviceGetPowerUsage(d, &milliwatts) != 0)
		return false;
	*v = milliwatts / 1e3;
	return true;
}

static const struct {
	const char *name;
	bool (*read)(nvml_device, double *);
} readings[] = {
	{"sm_clock", sm_clock},
	{"memory_clock", memory_clock},
	{"temperature", temperature},
	{"memory_temperature", memory_temperature},
	{"clock_reasons", clock_reasons},
	{"utilization", gpu_utilization},
	{"memory_utilization", memory_utilization},
	{"memory_used", memory_used},
	{"power", power}, /* the last: see with_power */
};
#define READINGS (sizeof readings / sizeof readings[0])
_Static_assert(READINGS <= GS_BOARD_READINGS, "room");

void gs_board_begin(struct gs_board *b, uint32_t set, uint32_t index, nvml_device device, bool with_power, uint64_t now)
{
	struct gs_set m = {.set = set, .device = index, .source = GS_SOURCE_NVML, .interval = 200 * GS_MS};
	*b = (struct gs_board){.device = device};
	for (uint32_t i = 0; i < READINGS - !with_power; i++) {
		double value;
		if (!readings[i].read(device, &value))
			continue;
		b->readings[m.count] = i;
		snprintf(m.names[m.count++], GS_NAME_SIZE, "%s", readings[i].name);
	}
	if (m.count > 0)
		gs_series_begin(&b->series, &m, now);
}

void gs_board_read(struct gs_board *b)
{
	double values[GS_BOARD_READINGS];
	uint32_t had = 0;
	for (uint32_t i = 0; i < b->series.count; i++) {
		bool ok = readings[b->readings[i]].read(b->device, &values[i]);
		if (!ok)
			values[i] = NAN;
		had += ok;
	}
	if (had > 0)
		gs_series_row(&b->series, gs_now(), values);
	else if (b->series.count > 0)
		gs_series_fail(&b->series);
	gs_series_flush(&b->series);
}

void gs_board_end(struct gs_board *b)
{
	gs_board_read(b);
	gs_series_end(&b->series, gs_now());
}
