#ifndef CT_NCCL_H
#define CT_NCCL_H

#include <stdbool.h>

#include "nvtx_abi.h"

#define CT_NCCL_FUNCTIONS 4
extern const struct ct_nvtx_hook ct_nccl_hooks[CT_NCCL_FUNCTIONS];

void ct_nccl_send(const char *name, const struct nvtx_payload *payload);
void ct_nccl_pass(void (*to)(const char *name, const struct nvtx_payload *payload));
void ct_nccl_forked(void);

#endif
