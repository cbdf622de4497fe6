/*
 * Flushing CUPTI, which delivers its buffers meanwhile. The control thread flushes now
 * and then, and the thread that exits at the end; signal handlers ask whether a flush
 * is stuck. A flush must never be begun in a callback of CUPTI, nor on two threads.
 */
#include "flush.h"

#include <stdatomic.h>

#include "calibration.h"
#include "clock.h"
#include "delivered.h"
#include "thread_state.h"

static _Atomic uint64_t begun; /* when the flush in progress has; 0 without one */
static atomic_bool forcing;    /* that flush is forced */

/* A flush begins with what precedes ct_flush_now. */
void ct_flush_begin(void)
{
	atomic_store(&begun, ct_now());
}

/* For a thread that may call CUPTI already. */
void ct_flush_now(uint32_t forced)
{
	const struct ct_cupti *api = ct_recording()->api;
	ct_flush_begin();
	atomic_store(&forcing, forced == CT_UNFINISHED);
	ct_calibration_repeat(api);
	api->flush_all(forced);
	atomic_store(&forcing, false);
	atomic_store(&begun, 0);
}

/*
 * One flush, by the control thread or at_exit by the thread that exits; false when
 * CUPTI is not to be touched. The forced flush delivers running kernels for good, so
 * it comes at the end alone.
 */
bool ct_flush(uint32_t forced, bool at_exit)
{
	if (at_exit ? !ct_recording()->api || ct_reached(CT_ENDED) : !ct_enter_cupti())
		return false;
	ct_flush_now(forced);
	if (!at_exit)
		ct_leave_cupti(false);
	return true;
}

/* Whether CUPTI delivers work that has not ended, or not even begun. */
bool ct_flush_forced(void)
{
	return atomic_load(&forcing);
}

/* Whether CUPTI has been flushed for so long without delivering anything. */
bool ct_flush_stuck(uint64_t time)
{
	uint64_t since = atomic_load(&begun), last = ct_delivered_last();
	return since != 0 && ct_now() > (since > last ? since : last) + time;
}
