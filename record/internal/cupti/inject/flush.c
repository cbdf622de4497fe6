/*
 * How far CUPTI has got with delivering, flushing CUPTI, and handing over before an end. The control thread flushes
 * now and then, and the thread that exits at the end. A flush must never be begun in a callback of CUPTI, nor on two
 * threads.
 */
#include "flush.h"

#include <errno.h>
#include <stdatomic.h>

#include "base.h"
#include "calibration.h"
#include "link.h"
#include "walk.h"

/*
 * What has been delivered: buffers, the time of the last one, and the newest calls and work in them. translate.c notes
 * it in CUPTI's callbacks: nothing here waits or takes a lock.
 */
static _Atomic uint64_t buffers, flushes;
static _Atomic uint64_t last; /* when a buffer came, or recording began */

static _Atomic uint32_t newest_call, newest_success, newest_work; /* correlation IDs, which grow */
static _Atomic uint32_t target;  /* the newest call whose work is awaited, 0 before an end */
static _Atomic uint64_t awaited; /* work of that call and those before */

void ct_delivered_start(void)
{
	atomic_store(&last, ct_now());
}

void ct_delivered_buffer(void)
{
	atomic_fetch_add_explicit(&buffers, 1, memory_order_relaxed);
}

uint64_t ct_delivered_buffers(void)
{
	return atomic_load(&buffers);
}

uint64_t ct_delivered_flushes(void)
{
	return atomic_load(&flushes);
}

uint64_t ct_delivered_last(void)
{
	return atomic_load(&last);
}

/* A buffer has come now; returns the time of the one before. */
uint64_t ct_delivered_again(uint64_t now)
{
	return atomic_exchange(&last, now);
}

static void raise_to(_Atomic uint32_t *to, uint32_t value)
{
	uint32_t was = atomic_load_explicit(to, memory_order_relaxed);
	while (was < value && !atomic_compare_exchange_weak(to, &was, value))
		;
}

/* Called for each buffer. */
void ct_delivered_add(const struct ct_delivery *d)
{
	raise_to(&newest_call, d->newest_call);
	raise_to(&newest_success, d->newest_success);
	raise_to(&newest_work, d->newest_work);
	atomic_fetch_add(&awaited, d->awaited);
	atomic_fetch_add(&flushes, d->flushes);
}

/* From now on work of the calls known so far is counted. A call that failed has none. */
static void await_work(void)
{
	atomic_store(&target, atomic_load(&newest_success));
}

uint32_t ct_delivered_target(void)
{
	return atomic_load(&target);
}

/* Whether the newest call whose work is awaited has no work yet, nor has any later one. */
static bool lacks_target(void)
{
	return atomic_load(&newest_work) < atomic_load(&target);
}

/* Whether there is work that is newer than every call. */
static bool lacks_calls(void)
{
	return atomic_load(&newest_work) > atomic_load(&newest_call);
}

/* One flush. CUPTI delivers its buffers meanwhile. */
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
	ct_walk_flush();
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
static bool flush_stuck(uint64_t time)
{
	uint64_t since = atomic_load(&begun), brought = ct_delivered_last();
	return since != 0 && ct_now() > (since > brought ? since : brought) + time;
}

/*
 * Handing over before an end that runs no exit handlers. A thread that is about to end
 * the program, often in a signal handler and with any lock held, can do next to nothing
 * itself: it leaves a number, wakes the control thread, and waits until that has
 * flushed CUPTI and the recorder has it all (control.c). When the flush does
 * not get on, the thread itself may hold a lock that CUPTI needs: it is let go if it
 * may, else the wait ends early. Nothing may be called here that is not safe in a
 * signal handler.
 */
#define LET_GO (30 * CT_MS) /* of a flush that does not get on */
#define FROM_EXIT (1ull << 63) /* of a wish: its thread was running the exit handler */

static struct ct_question handovers;
static _Atomic uint64_t wish; /* reason and detail of the latest request, 0 once read */
static _Atomic uint32_t over; /* none is answered any more: nobody waits, and no exit signal is sent */
static void (*on_release)(void);

static bool wait_for_answer(uint32_t number, bool may_leave)
{
	uint64_t deadline = ct_now() + ct_exit_wait();
	while (!atomic_load(&over) && ct_unanswered(&handovers, number) && ct_now() < deadline && !flush_stuck(CT_STALL)) {
		if (may_leave && flush_stuck(LET_GO))
			return false;
		ct_await_answer(&handovers, number);
	}
	return true;
}

/*
 * Returns true when the recorder has all that is recorded so far, when that takes too
 * long, or at once where there is nothing to hand over. Returns false when the handover
 * goes on and the thread should as well, since the thread seems to be in its way; at
 * the end the function of ct_handover_on_release is called. On any thread.
 */
bool ct_handover(uint32_t reason, uint32_t detail, bool may_leave)
{
	int kept = errno;
	bool through = true;
	if (ct_ours() && !atomic_load(&over)) {
		uint64_t from = ct_exiting_tid() == ct_tid() ? FROM_EXIT : 0;
		atomic_store(&wish, from | (uint64_t)reason << 32 | detail);
		uint32_t number = ct_ask(&handovers);
		if (number != 0)
			through = wait_for_answer(number, may_leave);
	}
	errno = kept;
	return through;
}

bool ct_handover_wanted(void)
{
	return ct_unanswered(&handovers, ct_asked(&handovers));
}

/* To be called before the threads start; f runs after each handover, on the control thread. */
void ct_handover_on_release(void (*f)(void))
{
	on_release = f;
}

/* All requests so far, as the latest of them. For the control thread. */
struct ct_request ct_handover_requested(void)
{
	static uint64_t latest;
	uint32_t number = ct_asked(&handovers);
	uint64_t w = atomic_exchange(&wish, 0);
	if (w != 0)
		latest = w;
	return (struct ct_request){.number = number,
				   .reason = (uint32_t)(latest >> 32) & 0xff,
				   .detail = (uint32_t)latest,
				   .from_exit = (latest & FROM_EXIT) != 0};
}

/* Lets go all threads that wait for a request up to this number. */
void ct_handover_release(uint32_t number)
{
	ct_answer(&handovers, number);
	if (on_release)
		on_release();
}

/* The program ends, and the handover that has just been was the last one. */
void ct_handover_last(void)
{
	atomic_store(&over, 1);
}

/* Where it is said that there was a last one. */
uint64_t ct_handover_over(void)
{
	return (uint64_t)(uintptr_t)&over;
}

/* From now on nobody waits. */
void ct_handover_end(void)
{
	ct_handover_last();
	ct_handover_release(ct_asked(&handovers));
}

/*
 * The last flushes before an end. The control thread runs them before a handover or a
 * pause, and the thread that exits at the end. Nothing may be waited for
 * beyond the limits below.
 *
 * Work that is on its way when the program ends dies with it, so what is about to
 * finish is given a moment: CUPTI is flushed until the newest call that the first flush
 * brought has its work and no more comes of that call and those before. What other
 * threads launch meanwhile is not waited for.
 */
#define LONGEST (300 * CT_MS) /* without any of that work */
#define MOST (2 * CT_SECOND)  /* a GPU that others use too may need it for a full queue */
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
	uint64_t until = ct_now(), most = until + MOST, end = until + LONGEST;
	bool due = true;
	ct_walk_poll();
	if (!ct_flush(CT_FINISHED, at_exit))
		return 0;
	await_work();
	for (uint64_t pause = CT_MS; due && ct_now() < end; pause = pause < PAUSE_MAX ? pause * 2 : PAUSE_MAX) {
		ct_pause(pause);
		uint64_t now = ct_now(), before = atomic_load(&awaited);
		if (!ct_flush(CT_FINISHED, at_exit))
			return until;
		until = now;
		due = lacks_target();
		if (atomic_load(&awaited) != before) {
			due = true;
			end = now + LONGEST < most ? now + LONGEST : most;
		}
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
		if (passed >= CALLS_LEAST && !lacks_calls())
			return;
	} while (passed < CALLS_MOST && !ct_exiting_tid() && !ct_handover_wanted());
}
