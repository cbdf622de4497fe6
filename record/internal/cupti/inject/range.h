#ifndef CT_RANGE_H
#define CT_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "nvtx_abi.h"

#define CT_RANGE_FUNCTIONS 13
extern const struct ct_nvtx_hook ct_range_hooks[CT_RANGE_FUNCTIONS];

void ct_range_choose(const char *text, uint32_t length, uint64_t first, uint32_t count);
void ct_range_tell(void (*changed)(void));
bool ct_range_wanted(void);
bool ct_range_open(void);
void ct_range_forked(void);

/* Where the recorder has probes: calls are recorded from the return of the first to the entry of the second. */
void cudaTraceRangeBegins(void);
void cudaTraceRangeEnds(void);

#endif
