#ifndef CT_WANTED_H
#define CT_WANTED_H

#include <stdbool.h>
#include <stdint.h>

#include "calls.h"
#include "cupti_abi.h"

#define CT_CBID_MAX 4096u
#define CT_DOMAINS 3u /* 0 is none */

void ct_want_calls(const struct ct_cupti *api, const struct ct_calls *calls, bool work);
void ct_unwant_call(uint32_t domain, uint32_t cbid);
uint32_t ct_wanted_calls(void);
uint32_t ct_wanted_name(uint32_t domain, uint32_t cbid);
bool ct_wanted_creates_work(uint32_t domain, uint32_t cbid);

void ct_range_began(void);
uint32_t ct_ranges_begun(void);

void ct_want_work(void);
void ct_unwant_work(void);
bool ct_wanted_time(uint64_t start);

#endif
