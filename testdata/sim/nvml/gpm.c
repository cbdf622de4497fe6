/*
 * GPM: counters that move every 100 ms. A metric is its mean over the steps between two samples, 0 if there
 * is none: in step k a percentage is metric + k % 10, a rate its metric times 100 MiB/s.
 */
#include <stdlib.h>

#include "../common/clock.h"
#include "../common/config.h"
#include "nvml_sim.h"

#define STEP_NS 100000000u
#define RATES 20 /* metrics from here on are rates */
#define LAST 209

struct sample {
	uint64_t step;
};

EXPORT int nvmlGpmQueryDeviceSupport(void *device, struct nvml_sim_gpm_support *support)
{
	(void)device;
	support->supported = support->version == 1 && !sim_config()->nvml_no_gpm;
	return support->version == 1 ? 0 : 2;
}

EXPORT int nvmlGpmSampleAlloc(void **sample)
{
	*sample = calloc(1, sizeof(struct sample));
	return *sample ? 0 : 999;
}

EXPORT int nvmlGpmSampleFree(void *sample)
{
	free(sample);
	return 0;
}

EXPORT int nvmlGpmSampleGet(void *device, void *sample)
{
	static uint64_t readings;
	(void)device;
	((struct sample *)sample)->step = sim_now() / STEP_NS;
	return nvml_sim_fails(&readings) ? 999 : 0;
}

static double mean(uint32_t metric, uint64_t from, uint64_t to)
{
	double sum = 0;
	for (uint64_t k = from; k < to; k++)
		sum += metric < RATES ? metric + k % 10 : metric * 100.0;
	return to > from ? sum / (double)(to - from) : 0;
}

EXPORT int nvmlGpmMetricsGet(struct nvml_sim_gpm_get *get)
{
	const struct sample *before = get->before, *after = get->after;
	if (get->version != 1)
		return 2;
	for (uint32_t i = 0; i < get->count; i++) {
		struct nvml_sim_gpm_metric *m = &get->metrics[i];
		m->result = m->id >= 1 && m->id <= LAST ? 0 : 2;
		m->value = mean(m->id, before->step, after->step);
	}
	return 0;
}
