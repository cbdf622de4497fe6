#ifndef CT_NVTX_H
#define CT_NVTX_H

#include <stdbool.h>

void ct_nvtx_begin(void);
void ct_nvtx_end(bool wanted);
void ct_nvtx_forked(void);

#endif
