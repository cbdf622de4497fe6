#ifndef CT_NVTX_TABLE_H
#define CT_NVTX_TABLE_H

#include <stdint.h>

#include "nvtx_abi.h"

/* A function of ours that stands before CUPTI's in a program's table of NVTX. */
struct ct_nvtx_hook {
	uint32_t module, number;
	nvtx_fn function;
	nvtx_fn _Atomic *next; /* the function that ours passes the call on to; NULL where CUPTI has none */
};

void ct_nvtx_before(void *get_export_table, const struct ct_nvtx_hook *hooks, unsigned count, nvtx_fn *was);
void ct_nvtx_after(void *get_export_table, const struct ct_nvtx_hook *hooks, unsigned count, const nvtx_fn *was);

#endif
