/*
 * The driver moves the counters every 100 ms. A shorter interval reads 0, or all of a step: polls
 * are 200 ms apart. Metric 1, graphics, costs a millisecond, all others together nothing that can
 * be seen: it is left out.
 */
#include "gpm.h"

#include <stdio.h>

#include "clock.h"
#include "nvml.h"

#define INTERVAL (200 * GS_MS)
#define SHORTEST (150 * GS_MS) /* counters move every 100 ms: in a shorter time perhaps not at all */
#define PERCENT 1.0
#define MEBIBYTES 1048576.0

static const struct {
	uint32_t id;
	const char *name;
	double scale; /* from NVML's unit */
	bool nvlink;
} metrics[] = {
	{2, "gpm_sm_active", PERCENT, false},
	{3, "gpm_sm_occupancy", PERCENT, false},
	{5, "gpm_tensor_active", PERCENT, false},
	{10, "gpm_dram_active", PERCENT, false},
	{11, "gpm_fp64_active", PERCENT, false},
	{12, "gpm_fp32_active", PERCENT, false},
	{13, "gpm_fp16_active", PERCENT, false},
	{20, "gpm_pcie_tx", MEBIBYTES, false},
	{21, "gpm_pcie_rx", MEBIBYTES, false},
	{60, "gpm_nvlink_rx", MEBIBYTES, true},
	{61, "gpm_nvlink_tx", MEBIBYTES, true},
};
#define METRICS (sizeof metrics / sizeof metrics[0])
_Static_assert(METRICS <= GS_GPM_METRICS, "room");

static bool supported(nvml_device device)
{
	struct nvml_gpm_support s = {.version = NVML_GPM_VERSION};
	return gs_nvml.nvmlGpmQueryDeviceSupport && gs_nvml.nvmlGpmSampleAlloc && gs_nvml.nvmlGpmSampleFree &&
	       gs_nvml.nvmlGpmSampleGet && gs_nvml.nvmlGpmMetricsGet &&
	       gs_nvml.nvmlGpmQueryDeviceSupport(device, &s) == 0 && s.supported;
}

static bool has_nvlink(nvml_device device)
{
	for (unsigned i = 0; gs_nvml.nvmlDeviceGetNvLinkState && i < NVML_NVLINKS; i++) {
		unsigned active;
		if (gs_nvml.nvmlDeviceGetNvLinkState(device, i, &active) == 0 && active)
			return true;
	}
	return false;
}

static void close_samples(struct gs_gpm *g)
{
	if (g->before)
		gs_nvml.nvmlGpmSampleFree(g->before);
	if (g->after)
		gs_nvml.nvmlGpmSampleFree(g->after);
	g->before = g->after = NULL;
}

static bool open_samples(struct gs_gpm *g)
{
	if (gs_nvml.nvmlGpmSampleAlloc(&g->before) == 0 && gs_nvml.nvmlGpmSampleAlloc(&g->after) == 0 &&
	    gs_nvml.nvmlGpmSampleGet(g->device, g->before) == 0)
		return true;
	close_samples(g);
	return false;
}

void gs_gpm_begin(struct gs_gpm *g, uint32_t set, uint32_t index, nvml_device device)
{
	struct gs_set m = {.set = set, .device = index, .source = GS_SOURCE_GPM, .interval = INTERVAL};
	*g = (struct gs_gpm){.device = device};
	if (!supported(device) || !open_samples(g))
		return;
	uint64_t now = gs_now();
	bool nvlink = has_nvlink(device);
	for (uint32_t i = 0; i < METRICS; i++) {
		if (metrics[i].nvlink && !nvlink)
			continue;
		g->metrics[m.count] = i;
		snprintf(m.names[m.count++], GS_NAME_SIZE, "%s", metrics[i].name);
	}
	gs_series_begin(&g->series, &m, now);
}

/* Evaluates the time between the two samples. */
static bool evaluate(struct gs_gpm *g, double *values)
{
	static struct nvml_gpm_get get;
	get = (struct nvml_gpm_get){.version = NVML_GPM_VERSION, .count = g->series.count, .before = g->before, .after = g->after};
	for (uint32_t i = 0; i < g->series.count; i++)
		get.metrics[i].id = metrics[g->metrics[i]].id;
	if (gs_nvml.nvmlGpmMetricsGet(&get) != 0)
		return false;
	for (uint32_t i = 0; i < g->series.count; i++) {
		if (get.metrics[i].result != 0)
			return false;
		values[i] = get.metrics[i].value * metrics[g->metrics[i]].scale;
	}
	return true;
}

void gs_gpm_read(struct gs_gpm *g)
{
	double values[GS_GPM_METRICS];
	if (g->series.count == 0 || gs_now() - g->series.last < SHORTEST)
		return;
	if (gs_nvml.nvmlGpmSampleGet(g->device, g->after) != 0) {
		gs_series_fail(&g->series);
		return;
	}
	uint64_t now = gs_now();
	if (!evaluate(g, values))
		gs_series_fail(&g->series);
	else
		gs_series_row(&g->series, now, values);
	gs_series_flush(&g->series);
	nvml_gpm_sample taken = g->after;
	g->after = g->before;
	g->before = taken;
}

void gs_gpm_end(struct gs_gpm *g)
{
	gs_gpm_read(g);
	gs_series_end(&g->series, gs_now());
	close_samples(g);
}
