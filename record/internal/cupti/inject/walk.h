#ifndef CT_WALK_H
#define CT_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti_abi.h"

bool ct_walk_start(const struct ct_cupti *api, size_t memory, bool want_chains, bool want_runtime);
bool ct_match_runtime(void);
void ct_walk_begin(void);
void ct_walk_end(void);
void ct_walk_forked(void);
void ct_walk_poll(void);
void ct_walk_flush(void);
uint64_t ct_walk_timestamp(void);
bool ct_walk_watch(void (*called)(bool start));

/* What was above a call when it began: numbers, 0 when not known. */
struct ct_above {
	uint32_t chain, python, operators; /* CT_PYTHON_LOST, CT_TORCH_LOST: there are some, without a number */
};

/* Chains of records. */
struct ct_above ct_match_call(uint32_t tid, uint64_t start, uint64_t end);
void ct_match_depth(uint64_t innermost, uint32_t depth);
bool ct_match_failed(void);

#endif
