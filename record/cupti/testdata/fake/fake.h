#ifndef FAKE_H
#define FAKE_H

#include <stdint.h>

void fake_api(uint32_t domain, uint32_t cbid, uint32_t tid, uint32_t correlation);
void fake_kernel(const char *name, uint32_t stream, uint32_t correlation);
void fake_others(void);
int fake_enabled(void);
uint64_t fake_dropped(void);

#endif
