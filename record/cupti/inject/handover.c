/*
 * Handing over before an end that runs no exit handlers. A thread that is about to end
 * the program, often in a signal handler and with any lock held, can do next to nothing
 * itself: it leaves a number, wakes the control thread, and waits until that has
 * flushed CUPTI and the recorder has it all (handover_answer.c). When the flush does
 * not get on, the thread itself may hold a lock that CUPTI needs: it is let go if it
 * may, else the wait ends early. Nothing may be called here that is not safe in a
 * signal handler.
 */
#include "handover.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "flush.h"
#include "fork.h"
#include "lock.h"
#include "thread_state.h"
#include "wake.h"

#define SLICE (10 * CT_MS) /* between looks at whether anything moves */
#define LET_GO (30 * CT_MS) /* of a flush that does not get on */
#define FROM_EXIT (1ull << 63) /* of a wish: its thread was running the exit handler */

static _Atomic uint32_t asked;    /* handovers; a request's number is its value behind it */
static _Atomic uint32_t answered; /* the latest number that was answered, a futex */
static _Atomic uint64_t wish;     /* reason and detail of the latest request, 0 once read */
static atomic_bool over;          /* none is answered any more */
static void (*on_release)(void);

static bool waiting(uint32_t number)
{
	return !atomic_load(&over) && (int32_t)(atomic_load(&answered) - number) < 0;
}

static bool wait_for_answer(uint32_t number, bool may_leave)
{
	uint64_t deadline = ct_now() + ct_exit_wait();
	while (waiting(number) && ct_now() < deadline && !ct_flush_stuck(CT_STALL)) {
		if (may_leave && ct_flush_stuck(LET_GO))
			return false;
		uint32_t seen = atomic_load(&answered);
		if (waiting(number))
			ct_word_wait(&answered, seen, SLICE);
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
		uint64_t from = ct_exiting_tid() == (uint32_t)syscall(SYS_gettid) ? FROM_EXIT : 0;
		atomic_store(&wish, from | (uint64_t)reason << 32 | detail);
		uint32_t number = atomic_fetch_add(&asked, 1) + 1;
		if (ct_wake_handover())
			through = wait_for_answer(number, may_leave);
	}
	errno = kept;
	return through;
}

bool ct_handover_wanted(void)
{
	return atomic_load(&asked) != atomic_load(&answered);
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
	uint32_t number = atomic_load(&asked);
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
	atomic_store(&answered, number);
	ct_word_wake(&answered);
	if (on_release)
		on_release();
}

/* From now on nobody waits. */
void ct_handover_end(void)
{
	atomic_store(&over, true);
	ct_handover_release(atomic_load(&asked));
}
