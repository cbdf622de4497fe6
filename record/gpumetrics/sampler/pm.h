/*
 * PM sampling: the GPU itself takes its counters at a fixed interval, and CUPTI decodes them.
 *
 *   choice.c   which metrics fit one pass
 *   cupti.c    CUPTI and CUDA, loaded at run time
 *   list.c     the metrics that GPUs have
 */
#ifndef GS_PM_H
#define GS_PM_H

#include <stdint.h>

#include "cupti.h"

#define GS_PM_RATE_MAX 10000 /* samples a second */
#define GS_PM_RATE_MIN 100   /* the hardware's longest interval is 10 ms */

/* Takes in what to sample, and reports the GPUs to the recorder. CUPTI runs. */
void gs_pm_begin(uint32_t rate, const char *const *names, uint32_t count);

/* ns between two calls of gs_pm_tick. */
uint64_t gs_pm_poll(void);

/* Begins, or ends, sampling a GPU. A wrong index, or a second call, does nothing. */
void gs_pm_start(uint32_t device);
void gs_pm_stop(uint32_t device);
void gs_pm_stop_all(void);

/* How many GPUs are sampled. */
uint32_t gs_pm_sampled(void);

/* Decodes what the GPUs have sampled. */
void gs_pm_tick(void);

/* Reports the GPUs and the metrics that they have. */
void gs_pm_list(void);

/* Reports the GPUs; devices without a UUID are left out. */
void gs_pm_report(void);

#endif
