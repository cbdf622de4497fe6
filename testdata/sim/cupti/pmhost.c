/*
 * Metrics of PM sampling and the passes they need. The chip has the metrics of cudatrace's default set, in one
 * pass; sm__warps_active, which fits one pass alone only; and lts__throughput, which needs four. NVLink's are
 * available if CUDASIM_NVML_NVLINK says so; who does not ask for the availability may sample them nevertheless, and
 * gets no complete sample. In the interval of number k a percentage has the value (7 m + k) % 100, m being its
 * place in the table below, and a rate (m + 1) 10^9 + k % 1000 * 10^6.
 */
#include <stdlib.h>
#include <string.h>

#include "pm.h"

#define CHIP "GH100"
#define PCT ".avg.pct_of_peak_sustained_elapsed"
#define RATE ".sum.per_second"

enum { COUNTER, RATIO, THROUGHPUT };

static const struct {
	const char *base, *full;
	uint32_t type, passes;
	bool percent, nvlink, alone;
} metrics[] = {
	{"gpc__cycles_elapsed", "gpc__cycles_elapsed.avg.per_second", COUNTER, 1, false, false, false},
	{"gr__cycles_active", "gr__cycles_active.sum.pct_of_peak_sustained_elapsed", COUNTER, 1, true, false, false},
	{"gr__compute_cycles_active", "gr__compute_cycles_active" PCT, COUNTER, 1, true, false, false},
	{"sm__cycles_active", "sm__cycles_active" PCT, COUNTER, 1, true, false, false},
	{"sm__inst_executed_realtime", "sm__inst_executed_realtime" PCT, COUNTER, 1, true, false, false},
	{"sm__pipe_tensor_cycles_active_realtime", "sm__pipe_tensor_cycles_active_realtime" PCT, COUNTER, 1, true, false, false},
	{"sm__warps_active_realtime", "sm__warps_active_realtime" PCT, COUNTER, 1, true, false, false},
	{"dram__bytes_read", "dram__bytes_read" RATE, COUNTER, 1, false, false, false},
	{"dram__bytes_write", "dram__bytes_write" RATE, COUNTER, 1, false, false, false},
	{"LTS.TriageCompute.lts__t_sector_throughput", "LTS.TriageCompute.lts__t_sector_throughput" PCT, THROUGHPUT, 1, true, false, false},
	{"pcie__read_bytes", "pcie__read_bytes" RATE, COUNTER, 1, false, false, false},
	{"pcie__write_bytes", "pcie__write_bytes" RATE, COUNTER, 1, false, false, false},
	{"nvlrx__bytes_data_user", "nvlrx__bytes_data_user" RATE, COUNTER, 1, false, true, false},
	{"nvltx__bytes_data_user", "nvltx__bytes_data_user" RATE, COUNTER, 1, false, true, false},
	{"sm__warps_active", "sm__warps_active" PCT, COUNTER, 1, true, false, true},
	{"lts__throughput", "lts__throughput" PCT, THROUGHPUT, 4, true, false, false},
};
#define METRICS (sizeof metrics / sizeof metrics[0])

int pm_metric(const char *name)
{
	for (size_t i = 0; i < METRICS; i++)
		if (!strcmp(name, metrics[i].full))
			return (int)i;
	return -1;
}

double pm_value(uint32_t m, uint64_t step)
{
	return metrics[m].percent ? (double)((7 * m + step) % 100) : (m + 1) * 1e9 + (double)(step % 1000) * 1e6;
}

struct host {
	struct pm_config config;
	bool asked; /* for the availability */
};

struct chip_name {
	PM_HEAD;
	size_t device;
	const char *name;
};

CUPTI(cuptiDeviceGetChipName, (struct chip_name *b))
{
	PM_CHECK(b, name);
	if (b->device >= sim_config()->devices)
		return 2; /* CUPTI_ERROR_INVALID_DEVICE */
	b->name = CHIP;
	return CUPTI_SUCCESS;
}

struct host_initialize {
	PM_HEAD;
	uint32_t type;
	const char *chip;
	const uint8_t *availability;
	void *host;
};

CUPTI(cuptiProfilerHostInitialize, (struct host_initialize *b))
{
	PM_CHECK(b, host);
	if (b->type != 1 || !b->chip || strcmp(b->chip, CHIP))
		return CUPTI_ERROR_INVALID_PARAMETER;
	struct host *h = calloc(1, sizeof *h);
	if (!h)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	h->config.magic = PM_CONFIG_MAGIC;
	h->asked = b->availability != NULL;
	if (h->asked && *b->availability != PM_AVAILABILITY)
		return CUPTI_ERROR_INVALID_PARAMETER;
	b->host = h;
	return CUPTI_SUCCESS;
}

struct host_object {
	PM_HEAD;
	void *host;
};

CUPTI(cuptiProfilerHostDeinitialize, (struct host_object *b))
{
	PM_CHECK(b, host);
	free(b->host);
	return CUPTI_SUCCESS;
}

struct base_metrics {
	PM_HEAD;
	struct host *host;
	uint32_t type;
	const char **names;
	size_t count;
};

CUPTI(cuptiProfilerHostGetBaseMetrics, (struct base_metrics *b))
{
	static const char *lists[THROUGHPUT + 1][METRICS];
	PM_CHECK(b, count);
	if (b->type > THROUGHPUT)
		return CUPTI_ERROR_INVALID_PARAMETER;
	b->names = lists[b->type];
	b->count = 0;
	for (size_t i = 0; i < METRICS; i++)
		if (metrics[i].type == b->type)
			b->names[b->count++] = metrics[i].base;
	return CUPTI_SUCCESS;
}

struct add_metrics {
	PM_HEAD;
	struct host *host;
	const char **names;
	size_t count;
};

CUPTI(cuptiProfilerHostConfigAddMetrics, (struct add_metrics *b))
{
	PM_CHECK(b, count);
	struct pm_config *c = &b->host->config;
	for (size_t i = 0; i < b->count; i++) {
		int m = pm_metric(b->names[i]);
		if (m < 0 || c->count == PM_METRICS)
			return CUPTI_ERROR_INVALID_PARAMETER;
		bool mute = metrics[m].nvlink && !sim_config()->nvml_nvlink;
		if (mute && b->host->asked)
			return CUPTI_ERROR_UNKNOWN;
		c->mute |= mute;
		c->metrics[c->count++] = (uint32_t)m;
	}
	return CUPTI_SUCCESS;
}

struct config_size {
	PM_HEAD;
	struct host *host;
	size_t length;
};

CUPTI(cuptiProfilerHostGetConfigImageSize, (struct config_size *b))
{
	PM_CHECK(b, length);
	b->length = sizeof(struct pm_config);
	return CUPTI_SUCCESS;
}

struct config_image {
	PM_HEAD;
	struct host *host;
	size_t length;
	void *image;
};

CUPTI(cuptiProfilerHostGetConfigImage, (struct config_image *b))
{
	PM_CHECK(b, image);
	if (b->length < sizeof b->host->config)
		return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
	memcpy(b->image, &b->host->config, sizeof b->host->config);
	return CUPTI_SUCCESS;
}

struct num_of_passes {
	PM_HEAD;
	size_t length;
	const struct pm_config *image;
	size_t passes;
};

CUPTI(cuptiProfilerHostGetNumOfPasses, (struct num_of_passes *b))
{
	PM_CHECK(b, passes);
	if (b->length != sizeof *b->image || b->image->magic != PM_CONFIG_MAGIC)
		return CUPTI_ERROR_INVALID_PARAMETER;
	b->passes = 1;
	for (uint32_t i = 0; i < b->image->count; i++) {
		size_t needs = metrics[b->image->metrics[i]].passes;
		if (metrics[b->image->metrics[i]].alone && b->image->count > 1)
			needs++;
		if (needs > b->passes)
			b->passes = needs;
	}
	return CUPTI_SUCCESS;
}

struct evaluate {
	PM_HEAD;
	struct host *host;
	const void *image;
	size_t length, index;
	const char **names;
	size_t count;
	double *values;
};

CUPTI(cuptiProfilerHostEvaluateToGpuValues, (struct evaluate *b))
{
	uint64_t step;
	PM_CHECK(b, values);
	CUptiResult r = pm_step(b->image, b->length, b->index, &step);
	for (size_t i = 0; r == CUPTI_SUCCESS && i < b->count; i++) {
		int m = pm_metric(b->names[i]);
		if (m < 0)
			return CUPTI_ERROR_INVALID_PARAMETER;
		b->values[i] = pm_value((uint32_t)m, step);
	}
	return r;
}
