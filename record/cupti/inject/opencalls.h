#ifndef CT_OPENCALLS_H
#define CT_OPENCALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

void ct_open_start(struct ct_shared *memory);
void ct_open_forked(void);
void ct_open_believe(uint64_t from);
void ct_open_doubt(void);
void ct_open_missed(uint64_t time);
void ct_open_judge(uint32_t starts, uint32_t inside, bool ends);

struct ct_open *ct_open_claim(uint32_t index, uint32_t tid);
void ct_open_release(struct ct_open *o, uint64_t now);

/* For every thread, inside CUDA calls. */
void ct_open_enter(struct ct_open *o, uint32_t site, uint64_t now, uint64_t inner, const uint64_t *chain, uint32_t count,
		   uint32_t epoch);

/* The callback was called from a place in CUPTI. */
static inline void ct_open_pass(struct ct_open *o, uint32_t site, uint64_t now)
{
	if (o)
		atomic_store_explicit(&o->last[site], now, memory_order_release);
}

#endif
