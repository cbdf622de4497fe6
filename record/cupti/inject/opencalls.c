/*
 * The calls that have begun, in memory that the recorder reads when the process has ended: the call in
 * which a thread was killed has no record. walk.c writes here inside CUDA calls; nothing may
 * wait, allocate or take a lock.
 *
 * A thread notes when CUPTI's callback was last called from each place in CUPTI. The thread is in a
 * call while the latest of these places is one at which calls begin, places within calls aside. Which
 * places those are is judged by match.c, and told by ct_open_judge at any time: the recorder judges
 * last. A place of which nothing is known closes a call, so a call that has returned is never open.
 */
#include "opencalls.h"

#include <stddef.h>

#include "clock.h"

static struct ct_shared *shared; /* NULL without such memory */

void ct_open_start(struct ct_shared *memory)
{
	shared = memory;
	ct_open_doubt();
}

/* In a forked child: the memory is the parent's. */
void ct_open_forked(void)
{
	shared = NULL;
}

/* Calls that begin from then on are believed to be open as long as no place says otherwise. */
void ct_open_believe(uint64_t from)
{
	if (shared)
		atomic_store(&shared->from, from);
}

/* Ends of calls may go unnoticed from now on. */
void ct_open_doubt(void)
{
	ct_open_believe(UINT64_MAX);
}

/* The end of a call may have gone unnoticed at that time, or before. */
void ct_open_missed(uint64_t time)
{
	uint64_t from = shared ? atomic_load(&shared->from) : time;
	while (from < time && !atomic_compare_exchange_weak(&shared->from, &from, time))
		;
}

/* Tells at which places calls begin, and which are within calls; ends says that their ends are noticed. */
void ct_open_judge(uint32_t starts, uint32_t inside, bool ends)
{
	if (shared)
		atomic_store(&shared->places, starts | (uint64_t)inside << 16 | (uint64_t)ends << 32);
}

/* The entry of a thread; NULL when there is none for it. */
struct ct_open *ct_open_claim(uint32_t index, uint32_t tid)
{
	if (!shared || index >= CT_OPEN_CALLS)
		return NULL;
	struct ct_open *o = &shared->calls[index];
	for (uint32_t i = 0; i < CT_OPEN_PLACES; i++)
		atomic_store_explicit(&o->last[i], 0, memory_order_relaxed);
	atomic_store(&o->tid, tid);
	return o;
}

/* The thread ends. */
void ct_open_release(struct ct_open *o, uint64_t now)
{
	if (!shared || !o)
		return;
	ct_open_pass(o, CT_OPEN_PLACES - 1, now);
	atomic_store(&o->tid, 0);
}

/* A call begins, perhaps; else the place is within it, and who called is the same. */
void ct_open_enter(struct ct_open *o, uint32_t site, uint64_t now, uint64_t inner, const uint64_t *chain, uint32_t count,
		   uint32_t epoch)
{
	if (!o)
		return;
	uint32_t sequence = atomic_load_explicit(&o->sequence, memory_order_relaxed) | 1;
	atomic_store_explicit(&o->sequence, sequence, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	o->time = now;
	o->inner = inner;
	o->epoch = epoch;
	o->count = count;
	for (uint32_t i = 0; i < count; i++)
		o->address[i] = chain[i];
	atomic_store_explicit(&o->last[site], now, memory_order_relaxed);
	atomic_store_explicit(&o->sequence, sequence + 1, memory_order_release);
}
