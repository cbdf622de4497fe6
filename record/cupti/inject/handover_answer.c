/*
 * The answer to a handover: CUPTI is flushed, the records are sent with a HANDOVER behind
 * them, and the threads that wait are let go. The control thread calls this; it must not
 * wait longer than the program's end may take.
 */
#include "handover_answer.h"

#include <stdbool.h>
#include <stddef.h>

#include "bye.h"
#include "clock.h"
#include "final_flush.h"
#include "handover.h"
#include "queue.h"
#include "rival_client.h"
#include "thread_state.h"

static void say(uint32_t reason, uint32_t detail, uint64_t until)
{
	struct ct_bye m = ct_bye(reason, detail, until);
	ct_queue_message(CT_MSG_HANDOVER, &m, sizeof m, NULL, 0);
}

/*
 * Answers all requests so far. While another thread runs the exit handler, nothing is
 * answered: that thread hands over itself, and the others wait for its end.
 */
void ct_handover_answer(void)
{
	struct ct_request r = ct_handover_requested();
	if (ct_exiting_tid() != 0 && !r.from_exit)
		return;
	uint64_t deadline = ct_now() + ct_exit_wait();
	if (ct_enter_cupti()) {
		bool taken = ct_rival_client_now(ct_recording()->api);
		if (taken)
			ct_rival_leave();
		ct_leave_cupti(taken);
	}
	uint64_t until = ct_final_flush(false, r.reason != CT_BYE_ASKED);
	if (ct_queue_wait_sent(deadline, CT_STALL)) {
		say(r.reason, r.detail, until);
		ct_queue_wait_sent(deadline, CT_STALL);
	}
	ct_handover_release(r.number);
}
