/*
 * The last flushes before an end. The control thread runs them before a handover or a
 * pause, and the thread that exits at the end. Nothing may be printed or waited for
 * beyond the limits below.
 *
 * Work that is on its way when the program ends dies with it, so what is about to
 * finish is given a moment: CUPTI is flushed until the newest call that the first flush
 * brought has its work and no more comes of that call and those before. What other
 * threads launch meanwhile is not waited for.
 */
#include "final_flush.h"

#include "clock.h"
#include "delivered.h"
#include "flush.h"
#include "handover.h"
#include "lock.h"
#include "thread_state.h"
#include "walk.h"

#define LONGEST (300 * CT_MS)
#define PAUSE_MAX (16 * CT_MS)
#define CALLS_LEAST (20 * CT_MS) /* for calls to return that nothing is known of yet */
#define CALLS_MOST (100 * CT_MS) /* for those that are known to be on their way */
#define CALLS_PAUSE (5 * CT_MS)

/*
 * Flushes, on the control thread or, when the program exits, on the thread that does.
 * final says that the end is certain: then comes the forced flush, which takes work
 * that still runs as it is. Returns the time up to which CUPTI has delivered all, 0
 * when CUPTI was out of reach.
 */
uint64_t ct_final_flush(bool at_exit, bool final)
{
	uint64_t until = ct_now(), end = until + LONGEST;
	bool due = true;
	ct_walk_poll();
	if (!ct_flush(CT_FINISHED, at_exit))
		return 0;
	ct_delivered_await();
	for (uint64_t pause = CT_MS; due && ct_now() < end; pause = pause < PAUSE_MAX ? pause * 2 : PAUSE_MAX) {
		ct_pause(pause);
		uint64_t now = ct_now(), before = ct_delivered_awaited();
		if (!ct_flush(CT_FINISHED, at_exit))
			return until;
		until = now;
		due = ct_delivered_awaited() != before || ct_delivered_lacks_target();
	}
	return final && !ct_flush(CT_UNFINISHED, at_exit) ? 0 : until;
}

/*
 * Between the end of work's records and that of their calls': a call makes its record
 * when it returns, and work without that record would have no call. The program's own
 * end does not wait for this.
 */
void ct_flush_calls(void)
{
	uint64_t begin = ct_now(), passed;
	do {
		ct_pause(CALLS_PAUSE);
		ct_flush_now(CT_FINISHED);
		passed = ct_now() - begin;
		if (passed >= CALLS_LEAST && !ct_delivered_lacks_calls())
			return;
	} while (passed < CALLS_MOST && !ct_exiting_tid() && !ct_handover_wanted());
}
