#ifndef CT_NCCL_H
#define CT_NCCL_H

#include <stdbool.h>

#include "nvtx_abi.h"

#define CT_NCCL_FUNCTIONS 4

/* The functions of a program's table before CUPTI takes it. */
struct ct_nccl_table {
	nvtx_fn functions[CT_NCCL_FUNCTIONS];
};

void ct_nccl_switch(bool on);
void ct_nccl_forked(void);
void ct_nccl_before(void *get_export_table, struct ct_nccl_table *t);
void ct_nccl_after(void *get_export_table, const struct ct_nccl_table *t);

#endif
