#ifndef CT_CHAINS_H
#define CT_CHAINS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

bool ct_chains_start(void);

/* For every thread, inside CUDA calls. */
uint32_t ct_chain_number(const uint64_t *addresses, uint32_t count, bool *fresh);
uint32_t ct_chain_epoch(void);
uint32_t ct_chain_depth(uint64_t innermost);
void ct_chain_due(uint32_t number);

/* For one thread at a time. */
bool ct_chain_send(uint32_t number);
void ct_chains_send(void);
void ct_chain_set_depth(uint64_t innermost, uint32_t depth);
void ct_chains_unloaded(void);

#endif
