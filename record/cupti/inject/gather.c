/*
 * The last flushes before an end. Work that is on its way when the program ends
 * dies with it, so what is about to finish is given a moment: CUPTI is flushed
 * until the newest call that the first flush brought has its work and no more comes
 * of that call and those before. What other threads launch meanwhile is not waited for.
 */
#include "inject.h"

#include <poll.h>

#define LONGEST (300 * CT_MS)
#define PAUSE_MAX 16 /* ms */
#define CALLS_LEAST (20 * CT_MS) /* for calls to return that nothing is known of yet */
#define CALLS_MOST (100 * CT_MS) /* for those that are known to be on their way */
#define CALLS_PAUSE 5 /* ms */

static _Atomic uint32_t newest_call, newest_work; /* correlations, which only grow */
static _Atomic uint32_t target;  /* of the newest call that is waited for, 0 before an end */
static _Atomic uint64_t awaited; /* work of that call and those before */
static atomic_bool forcing;

static void raise_to(_Atomic uint32_t *to, uint32_t value)
{
	uint32_t was = atomic_load_explicit(to, memory_order_relaxed);
	while (was < value && !atomic_compare_exchange_weak(to, &was, value))
		;
}

uint32_t ct_gather_target(void)
{
	return atomic_load(&target);
}

/* Whether CUPTI hands over work that has not ended, or not even begun. */
bool ct_gather_forces(void)
{
	return atomic_load(&forcing);
}

/* Told of every batch of records. */
void ct_gather_note(const struct ct_batch *b)
{
	raise_to(&newest_call, b->newest_call);
	raise_to(&newest_work, b->newest_work);
	atomic_fetch_add(&awaited, b->awaited);
}

/* The forced flush: work that still runs is taken as it is. */
static bool force(bool at_exit)
{
	atomic_store(&forcing, true);
	bool done = ct_threads_flush(1, at_exit);
	atomic_store(&forcing, false);
	return done;
}

/*
 * Flushes, on the control thread or, when the program exits, on the thread that
 * does. final says that the end is certain: then comes the forced flush. Returns the time up to which all is handed over, 0 when CUPTI was out of
 * reach.
 */
uint64_t ct_gather(bool at_exit, bool final)
{
	uint64_t until = ct_now(), end = until + LONGEST;
	bool due = true;
	if (!ct_threads_flush(0, at_exit))
		return 0;
	atomic_store(&target, atomic_load(&newest_call));
	for (int pause = 1; due && ct_now() < end; pause = pause < PAUSE_MAX ? pause * 2 : PAUSE_MAX) {
		poll(NULL, 0, pause);
		uint64_t now = ct_now(), before = atomic_load(&awaited);
		if (!ct_threads_flush(0, at_exit))
			return until;
		until = now;
		due = atomic_load(&awaited) != before || atomic_load(&newest_work) < atomic_load(&target);
	}
	return final && !force(at_exit) ? 0 : until;
}

/*
 * Between the end of work's records and that of their calls': a call makes its record
 * only when it returns, and work without it would have no call.
 */
void ct_gather_calls(void)
{
	uint64_t begin = ct_now(), passed;
	do {
		poll(NULL, 0, CALLS_PAUSE);
		ct_threads_flush_now(0);
		passed = ct_now() - begin;
		if (passed >= CALLS_LEAST && atomic_load(&newest_work) <= atomic_load(&newest_call))
			return;
	} while (passed < CALLS_MOST && !ct_threads_exiting() && !ct_handover_wanted()); /* the program's end does not wait */
}
