/*
 * The last flushes before an end. Work that is on its way when the program ends
 * dies with it, so what is about to finish is given a moment: CUPTI is flushed
 * until the newest call that made work has got some of it and nothing more comes.
 */
#include "inject.h"

#include <poll.h>

#define LONGEST (300 * CT_MS)
#define PAUSE_MAX 16 /* ms */

static _Atomic uint32_t newest_call, newest_work; /* correlations, which only grow */

static void raise_to(_Atomic uint32_t *to, uint32_t value)
{
	uint32_t was = atomic_load_explicit(to, memory_order_relaxed);
	while (was < value && !atomic_compare_exchange_weak(to, &was, value))
		;
}

/* Told of every batch of records: the largest correlation of each sort in it, 0 without. */
void ct_gather_note(uint32_t call, uint32_t work)
{
	raise_to(&newest_call, call);
	raise_to(&newest_work, work);
}

static bool work_is_due(void)
{
	return atomic_load(&newest_call) > atomic_load(&newest_work);
}

static uint64_t arrived(void)
{
	struct ct_counts c = ct_queue_counts();
	return c.kernels + c.copies + c.sets + c.apis;
}

/*
 * Flushes, on the control thread or, when the program exits, on the thread that
 * does. final says that the end is certain: work that still runs is then taken as
 * it is. Returns the time up to which all is handed over, 0 when CUPTI was out of
 * reach.
 */
uint64_t ct_gather(bool at_exit, bool final)
{
	uint64_t until = 0, now = ct_now(), end = now + LONGEST;
	int pause = 1;
	for (; now < end; now = ct_now()) {
		uint64_t before = arrived();
		if (!ct_threads_flush(0, at_exit))
			return until;
		until = now;
		if (arrived() == before && !work_is_due())
			break;
		poll(NULL, 0, pause);
		pause = pause < PAUSE_MAX ? pause * 2 : PAUSE_MAX;
	}
	if (final && !ct_threads_flush(1, at_exit))
		return 0;
	return until;
}
