#ifndef CT_NVTX_H
#define CT_NVTX_H

#include <stdbool.h>

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(void *get_export_table);

bool ct_nvtx_on(void);
void ct_nvtx_begin(void);
void ct_nvtx_end(bool wanted);
void ct_nvtx_forked(void);

#endif
