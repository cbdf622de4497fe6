#ifndef CT_SIGNALS_H
#define CT_SIGNALS_H

#include <stdint.h>

void ct_signals_trap(void);
void ct_signals_start(void);
void ct_signals_end(void);
uint32_t ct_signals_exit(uint64_t *handler);

#endif
