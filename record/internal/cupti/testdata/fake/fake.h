#ifndef FAKE_H
#define FAKE_H

#include <stddef.h>
#include <stdint.h>

extern uint32_t fake_result; /* of the calls that follow */

void fake_api(uint32_t domain, uint32_t cbid, uint32_t tid, uint32_t correlation);
void fake_kernel(const char *name, uint32_t stream, uint32_t correlation);
void fake_profiler(int start);
void fake_others(void);
int fake_enabled(void);
int fake_tables(void);
uint64_t fake_dropped(void);
void fake_hold(void);

int cuptiActivityRegisterCallbacks(void *request, void *complete);

#endif
