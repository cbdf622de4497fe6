/* PM sampling: what the host half (metrics, passes) and the sampling half share. */
#ifndef SIM_CUPTI_PM_H
#define SIM_CUPTI_PM_H

#include <stddef.h>

#include "internal.h"

#define PM_METRICS 64 /* room in a configuration */
#define PM_AVAILABILITY 0x41 /* first byte of an availability image */
#define PM_CONFIG_MAGIC 0x436d5053u

#define PM_HEAD \
	size_t size; \
	void *zero

/* Checks the size that a block names: the end of its last field. */
#define PM_CHECK(block, last) \
	do { \
		if (!(block) || (block)->size != offsetof(__typeof__(*(block)), last) + sizeof (block)->last || (block)->zero) \
			return CUPTI_ERROR_INVALID_PARAMETER; \
	} while (0)

/* What a config image holds. */
struct pm_config {
	uint32_t magic, count;
	uint32_t mute; /* a unit does not answer: NVLink without a link */
	uint32_t metrics[PM_METRICS];
};

/* The number of a metric, negative without one. */
int pm_metric(const char *name);

/* The value of a metric in the interval of a number, counted from the clock's start. */
double pm_value(uint32_t metric, uint64_t step);

/* What an image and an index say: the interval's number. */
CUptiResult pm_step(const void *image, size_t length, size_t index, uint64_t *step);

#endif
