#include "power.h"

#include <stdio.h>

#include "clock.h"
#include "nvml.h"

#define HISTORY 256            /* room: the driver keeps 119 samples */
#define INTERVAL (20 * GS_MS)
#define LONGEST (100 * GS_MS)  /* samples further apart have others between them that are gone */

static struct nvml_sample samples[HISTORY];

/* Reads the samples after a time. The answer is their number, negative after an error. */
static int history(nvml_device device, uint64_t after)
{
	unsigned count = HISTORY;
	int type = NVML_VALUE_UINT;
	nvml_return r = gs_nvml.nvmlDeviceGetSamples(device, NVML_SAMPLES_POWER, after, &type, &count, samples);
	if (r == NVML_NO_DATA || r == NVML_NOT_FOUND || (r == 0 && count == 0))
		return 0;
	return r == 0 && type == NVML_VALUE_UINT && count <= HISTORY ? (int)count : -1;
}

bool gs_power_begin(struct gs_power *p, uint32_t set, uint32_t index, nvml_device device, uint64_t now)
{
	struct gs_set m = {.set = set, .device = index, .source = GS_SOURCE_NVML, .count = 1, .interval = INTERVAL};
	*p = (struct gs_power){.device = device, .seen = gs_clock(CLOCK_REALTIME) / 1000};
	if (!gs_nvml.nvmlDeviceGetSamples || history(device, 0) <= 0)
		return false;
	snprintf(m.names[0], GS_NAME_SIZE, "power");
	gs_series_begin(&p->series, &m, now);
	return true;
}

/* A sample's time on CLOCK_MONOTONIC, where REALTIME is ahead by so much. */
static uint64_t monotonic(const struct nvml_sample *s, uint64_t ahead)
{
	return s->time * 1000 - ahead;
}

void gs_power_read(struct gs_power *p)
{
	if (p->series.count == 0)
		return;
	int n = history(p->device, p->seen);
	uint64_t ahead = gs_realtime_ahead();
	if (n < 0)
		gs_series_fail(&p->series);
	for (int i = 0; i < n; i++) {
		uint64_t at = monotonic(&samples[i], ahead);
		double watts = samples[i].value.u32 / 1e3;
		if (samples[i].time <= p->seen)
			continue;
		if (at > p->series.last + LONGEST)
			gs_series_fail(&p->series);
		gs_series_row(&p->series, at, &watts);
		p->seen = samples[i].time;
	}
	gs_series_flush(&p->series);
}

void gs_power_end(struct gs_power *p)
{
	gs_power_read(p);
	gs_series_end(&p->series, gs_now());
}
