/*
 * Handing over before an end that runs no exit handlers. A thread that is about to
 * end the program, often in a signal handler and with any lock held, can do next to
 * nothing itself: it leaves a number, wakes the control thread, and waits until that
 * has flushed CUPTI and the recorder has it all. When the flush does not get on, the
 * thread itself may hold a lock that CUPTI needs: it is let go if it may, else the
 * wait ends early.
 */
#include "inject.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLICE (10 * CT_MS) /* between looks at whether anything moves */
#define LET_GO (30 * CT_MS) /* of a flush that does not get on */
#define FROM_EXIT (1ull << 63) /* of a wish: its thread was running the exit handler */

static _Atomic uint32_t asked;    /* handovers; a request's number is its value behind it */
static _Atomic uint32_t answered; /* the latest number that was answered, a futex */
static _Atomic uint64_t wish;     /* reason and detail of the latest request, 0 once read */
static atomic_bool over;          /* none is answered any more */

static bool waiting(uint32_t number)
{
	return !atomic_load(&over) && (int32_t)(atomic_load(&answered) - number) < 0;
}

static bool wait_for_answer(uint32_t number, bool may_leave)
{
	static const struct timespec slice = {.tv_nsec = SLICE};
	uint64_t deadline = ct_now() + ct_threads_patience();
	while (waiting(number) && ct_now() < deadline && !ct_threads_stuck(CT_STALL)) {
		if (may_leave && ct_threads_stuck(LET_GO))
			return false;
		uint32_t seen = atomic_load(&answered);
		if (waiting(number))
			syscall(SYS_futex, &answered, FUTEX_WAIT_PRIVATE, seen, &slice, NULL, 0);
	}
	return true;
}

/*
 * Returns when all that is recorded so far is with the recorder, when that takes
 * too long, or at once where there is nothing to hand over: true. False when it
 * goes on and the thread should as well, since it seems to be in its way; then
 * ct_signals_through is called at the end. On any thread.
 */
bool ct_handover(uint32_t reason, uint32_t detail, bool may_leave)
{
	int kept = errno;
	bool through = true;
	if (ct_ours() && !atomic_load(&over)) {
		uint64_t from = ct_threads_exiting() == (uint32_t)syscall(SYS_gettid) ? FROM_EXIT : 0;
		atomic_store(&wish, from | (uint64_t)reason << 32 | detail);
		uint32_t number = atomic_fetch_add(&asked, 1) + 1;
		if (ct_threads_tell())
			through = wait_for_answer(number, may_leave);
	}
	errno = kept;
	return through;
}

bool ct_handover_wanted(void)
{
	return atomic_load(&asked) != atomic_load(&answered);
}

static void release(uint32_t number)
{
	atomic_store(&answered, number);
	syscall(SYS_futex, &answered, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
	ct_signals_through();
}

static void say(uint32_t reason, uint32_t detail, uint64_t until)
{
	struct ct_bye m = ct_threads_bye(reason, detail, until);
	ct_queue_message(CT_MSG_HANDOVER, &m, sizeof m, NULL, 0);
}

/*
 * Answers all requests so far; called by the control thread. While another thread
 * runs the exit handler, that one hands over, and its end is waited for.
 */
void ct_handover_answer(void)
{
	static uint64_t latest;
	uint32_t number = atomic_load(&asked);
	uint64_t w = atomic_exchange(&wish, 0);
	if (w != 0)
		latest = w;
	if (ct_threads_exiting() != 0 && !(latest & FROM_EXIT))
		return;
	uint32_t reason = (uint32_t)(latest >> 32) & 0xff;
	uint64_t deadline = ct_now() + ct_threads_patience();
	uint64_t until = ct_gather(false, reason != CT_BYE_ASKED);
	if (ct_queue_wait_sent(deadline, CT_STALL)) {
		say(reason, (uint32_t)latest, until);
		ct_queue_wait_sent(deadline, CT_STALL);
	}
	release(number);
}

/* From now on nobody waits. */
void ct_handover_end(void)
{
	atomic_store(&over, true);
	release(atomic_load(&asked));
}
