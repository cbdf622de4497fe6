#include "choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gs_chip_name(uint32_t device, struct gs_trouble *t)
{
	struct cupti_chip_name block = {.size = CUPTI_SIZE(struct cupti_chip_name, name), .device = device};
	return GS_CUPTI(cuptiDeviceGetChipName, &block, t) ? block.name : NULL;
}

bool gs_chip_units(struct gs_chip *chip, uint32_t device, struct gs_trouble *t)
{
	struct cupti_availability block = {.size = CUPTI_SIZE(struct cupti_availability, image), .device = device};
	if (!GS_CUPTI(cuptiPmSamplingGetCounterAvailability, &block, t)) /* says how long the image is */
		return false;
	block.image = calloc(1, block.length);
	if (!block.image)
		return gs_no_memory(t, block.length);
	if (!GS_CUPTI(cuptiPmSamplingGetCounterAvailability, &block, t)) {
		free(block.image);
		return false;
	}
	free(chip->units);
	chip->units = block.image;
	return true;
}

bool gs_choice_open(struct gs_choice *c, const struct gs_chip *chip, struct gs_trouble *t)
{
	struct cupti_host_initialize block = {
		.size = CUPTI_SIZE(struct cupti_host_initialize, host), .type = CUPTI_PROFILER_PM_SAMPLING, .chip = chip->name,
		.availability = chip->units,
	};
	*c = (struct gs_choice){0};
	if (!GS_CUPTI(cuptiProfilerHostInitialize, &block, t))
		return false;
	c->host = block.host;
	return true;
}

void gs_choice_close(struct gs_choice *c)
{
	struct cupti_host block = {.size = CUPTI_SIZE(struct cupti_host, host), .host = c->host};
	if (c->host)
		gs_cupti.cuptiProfilerHostDeinitialize(&block); /* nothing is left to do where it fails */
	free(c->config);
	*c = (struct gs_choice){0};
}

/* Makes the image of the metrics that the host object has. */
static bool configure(struct gs_choice *c, struct gs_trouble *t)
{
	struct cupti_config_size size = {.size = CUPTI_SIZE(struct cupti_config_size, length), .host = c->host};
	struct cupti_config image = {.size = CUPTI_SIZE(struct cupti_config, image), .host = c->host};
	if (!GS_CUPTI(cuptiProfilerHostGetConfigImageSize, &size, t))
		return false;
	c->length = image.length = size.length;
	c->config = image.image = calloc(1, size.length);
	if (!c->config)
		return gs_no_memory(t, size.length);
	return GS_CUPTI(cuptiProfilerHostGetConfigImage, &image, t);
}

size_t gs_passes(struct gs_choice *c, const struct gs_chip *chip, const char *const *names, uint32_t count, struct gs_trouble *t)
{
	struct cupti_add_metrics add = {.size = CUPTI_SIZE(struct cupti_add_metrics, count), .names = names, .count = count};
	struct cupti_passes passes = {.size = CUPTI_SIZE(struct cupti_passes, passes)};
	if (!gs_choice_open(c, chip, t))
		return 0;
	add.host = c->host;
	if (!GS_CUPTI(cuptiProfilerHostConfigAddMetrics, &add, t) || !configure(c, t))
		return 0;
	passes.length = c->length;
	passes.image = c->config;
	if (!GS_CUPTI(cuptiProfilerHostGetNumOfPasses, &passes, t))
		return 0;
	c->count = count;
	memcpy(c->names, names, count * sizeof *names);
	return passes.passes;
}

/* Whether metrics fit one pass. The choice is of them, or empty. */
static bool fit(struct gs_choice *c, const struct gs_chip *chip, const char *const *names, uint32_t count, struct gs_trouble *t)
{
	if (gs_passes(c, chip, names, count, t) == 1)
		return true;
	gs_choice_close(c);
	return false;
}

bool gs_choose(struct gs_choice *c, const struct gs_chip *chip, const char *const *wanted, uint32_t count, struct gs_trouble *t)
{
	const char *kept[GS_METRICS_MAX];
	uint32_t n = 0;
	if (!gs_choice_open(c, chip, t))
		return false;
	gs_choice_close(c);
	if (fit(c, chip, wanted, count, t))
		return true;
	for (uint32_t i = 0; i < count; i++) {
		kept[n] = wanted[i];
		gs_choice_close(c);
		n += fit(c, chip, kept, n + 1, t);
	}
	if (c->count == n && n > 0)
		return true;
	if (n > 0)
		return fit(c, chip, kept, n, t);
	t->why = GS_NO_METRIC;
	snprintf(t->text, sizeof t->text, "a GPU of type %s has none of the metrics", chip->name);
	return false;
}
