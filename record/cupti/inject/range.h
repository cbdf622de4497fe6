#ifndef CT_RANGE_H
#define CT_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "nvtx_abi.h"

#define CT_RANGE_FUNCTIONS 16

/* The functions of a program's table before CUPTI takes it. */
struct ct_range_table {
	nvtx_fn functions[CT_RANGE_FUNCTIONS];
};

void ct_range_choose(const char *text, uint32_t length);
void ct_range_tell(void (*changed)(void));
bool ct_range_wanted(void);
bool ct_range_open(void);
void ct_range_forked(void);

void ct_range_before(void *get_export_table, struct ct_range_table *t);
void ct_range_after(void *get_export_table, const struct ct_range_table *t);

/* Where the recorder has probes: calls are recorded from the return of the first to the entry of the second. */
void cudaTraceRangeBegins(void);
void cudaTraceRangeEnds(void);

#endif
