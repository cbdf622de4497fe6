#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choice.h"
#include "out.h"
#include "pm.h"

/* What is asked of a metric; the first that a metric has says how many passes it needs. */
static const char *const submetrics[] = {
	".avg.pct_of_peak_sustained_elapsed", ".sum.per_second", ".pct", ".ratio", ".sum.pct_of_peak_sustained_elapsed", ".avg.per_second",
};

static void report(uint32_t device, const struct gs_chip *chip, const char *base)
{
	struct gs_metric m = {.device = device};
	struct gs_trouble t;
	for (size_t i = 0; i < sizeof submetrics / sizeof submetrics[0] && m.passes == 0; i++) {
		struct gs_choice c;
		const char *name = m.name;
		int n = snprintf(m.name, sizeof m.name, "%s%s", base, submetrics[i]);
		if (n < 0 || (size_t)n >= sizeof m.name)
			continue;
		m.passes = (uint32_t)gs_passes(&c, chip, &name, 1, &t);
		gs_choice_close(&c);
	}
	if (m.passes == 0)
		snprintf(m.name, sizeof m.name, "%s", base);
	gs_send(&m, GS_METRIC, sizeof m);
}

/* Whether a GPU before this one has the same chip, and so the same metrics. */
static bool listed(uint32_t device, const char *chip)
{
	struct gs_trouble t;
	char mine[64];
	snprintf(mine, sizeof mine, "%s", chip); /* the next answer may lie in the same place */
	for (uint32_t i = 0; i < device; i++) {
		const char *other = gs_chip_name(i, &t);
		if (other && !strcmp(other, mine))
			return true;
	}
	return false;
}

static void list(uint32_t device)
{
	struct gs_refused refused = {.device = device};
	struct gs_trouble t;
	struct gs_choice c = {0};
	struct gs_chip chip = {.name = gs_chip_name(device, &t)};
	if (chip.name && listed(device, chip.name))
		return;
	chip.name = gs_chip_name(device, &t);
	bool ok = chip.name;
	if (ok) {
		gs_chip_units(&chip, device, &t); /* while another process uses the counters, what such a chip may have */
		ok = gs_choice_open(&c, &chip, &t);
	}
	for (uint32_t type = 0; ok && type < CUPTI_METRIC_TYPES; type++) {
		struct cupti_base_metrics block = {.size = CUPTI_SIZE(struct cupti_base_metrics, count), .host = c.host, .type = type};
		ok = GS_CUPTI(cuptiProfilerHostGetBaseMetrics, &block, &t);
		for (size_t i = 0; ok && i < block.count; i++)
			report(device, &chip, block.names[i]);
	}
	gs_choice_close(&c);
	free(chip.units);
	if (ok)
		return;
	refused.why = t.why;
	snprintf(refused.text, sizeof refused.text, "%s", t.text);
	gs_send(&refused, GS_REFUSED, sizeof refused);
}

void gs_pm_list(void)
{
	struct gs_head done;
	gs_pm_report();
	for (uint32_t i = 0; i < gs_cuda_devices(); i++)
		list(i);
	gs_send(&done, GS_DONE, sizeof done);
}
