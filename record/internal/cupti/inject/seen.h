#ifndef CT_SEEN_H
#define CT_SEEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "python.h"
#include "stack.h"
#include "wire.h"

/* Calls that have begun. */
void ct_open_start(struct ct_shared *memory, bool seen);
void ct_open_forked(void);
void ct_open_believe(uint64_t from);
void ct_open_doubt(void);
void ct_open_missed(uint64_t time);
void ct_open_judge(uint32_t starts, uint32_t inside, bool ends);

/* For every thread, inside CUDA calls. */
void ct_open_enter(struct ct_open *o, uint32_t site, uint64_t now, uint64_t inner, const uint64_t *chain, uint32_t count,
		   uint32_t epoch);

/* The callback was called from a place in CUPTI. */
static inline void ct_open_pass(struct ct_open *o, uint32_t site, uint64_t now)
{
	if (o)
		atomic_store_explicit(&o->last[site], now, memory_order_release);
}

/* Chains. */
bool ct_chains_start(void);

/* For every thread, inside CUDA calls. */
uint32_t ct_chain_number(uint64_t inner, const uint64_t *addresses, uint32_t count, bool *fresh);
uint32_t ct_chain_epoch(void);
uint32_t ct_chain_depth(uint64_t innermost);
void ct_chain_due(uint32_t number);

/* For one thread at a time. */
bool ct_chain_send(uint32_t number);
void ct_chains_send(void);
void ct_chain_set_depth(uint64_t innermost, uint32_t depth);
void ct_chains_unloaded(void);

/*
 * A call of CUPTI's timestamp callback, as one word: the time that it answered, where in
 * CUPTI it was called from, the number of the chain above. Chain 0 and site CT_SITE_NONE
 * say that the next words are of another thread; its ID is in the time's place.
 */
#define CT_SEEN_TIME_SHIFT (CT_SEEN_CHAIN_BITS + CT_SEEN_SITE_BITS)
#define CT_SITE_NONE ((1u << CT_SEEN_SITE_BITS) - 1)
#define CT_SITE_OTHER (CT_SITE_NONE - 1) /* stands for all that found no room */

static inline uint64_t ct_seen_word(uint64_t time, uint32_t site, uint32_t chain)
{
	return time << CT_SEEN_TIME_SHIFT | (uint64_t)site << CT_SEEN_CHAIN_BITS | chain;
}

static inline uint64_t ct_seen_time(uint64_t word)
{
	return word >> CT_SEEN_TIME_SHIFT;
}

static inline uint32_t ct_seen_site(uint64_t word)
{
	return (uint32_t)(word >> CT_SEEN_CHAIN_BITS) & CT_SITE_NONE;
}

static inline uint32_t ct_seen_chain(uint64_t word)
{
	return (uint32_t)word & ((1u << CT_SEEN_CHAIN_BITS) - 1);
}

/* As many bits of a time as a word has. */
static inline uint64_t ct_seen_cut(uint64_t time)
{
	return ct_seen_time(ct_seen_word(time, 0, 0));
}

/* A call of the callback. */
struct ct_seen {
	uint64_t word;   /* 0: none */
	uint32_t python; /* the Python stack, as ct_python_number has it */
	uint32_t operators; /* PyTorch's, as ct_torch_number has them */
};

/* What the callback keeps for a thread. */
struct ct_thread {
	struct ct_home home;
	struct ct_open *open; /* the call that it is in; NULL where that is not noted */
	bool busy; /* the callback is running: a signal handler came in between */
	struct ct_python_thread python;
};

size_t ct_seen_size(size_t memory);
bool ct_seen_start(size_t memory);
void ct_seen_forget(void);
bool ct_seen_used(void);
struct ct_thread *ct_seen_thread(void);
bool ct_seen_add(struct ct_thread *t, struct ct_seen call);
void ct_seen_drop(uint64_t time);
bool ct_seen_may_lack(uint64_t time);

/* For one thread at a time. */
typedef void (*ct_seen_fn)(uint32_t tid, struct ct_seen call);
struct ct_seen ct_seen_find(uint32_t tid, uint64_t time, ct_seen_fn passed);
void ct_seen_empty(ct_seen_fn passed, bool all);

#endif
