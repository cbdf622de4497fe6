/*
 * The sender thread: it sends what the queue holds to the recorder, then a BYE. It
 * waits for a slow recorder as long as the program lives. It must not call CUPTI, so
 * that a slow flush never delays the sending.
 */
#include "sender.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "bye.h"
#include "clock.h"
#include "link.h"
#include "queue.h"
#include "thread_state.h"
#include "wake.h"
#include "wire.h"

#define LOOK (8 * CT_MS) /* between looks, while the recorder is slow */

static _Atomic uint64_t give_up; /* when the sender stops trying, 0 until the end has begun */
static atomic_uint bye_reason;
static _Atomic uint64_t bye_until;

static bool sending_is_over(uint64_t progress)
{
	uint64_t last = atomic_load(&give_up);
	if (last == 0)
		return false;
	uint64_t now = ct_now(), begun = last - ct_exit_wait();
	return now > last || now > (progress > begun ? progress : begun) + CT_STALL;
}

/* Sends it all, however long the recorder takes, until the end is near. */
static bool send_all(const void *data, size_t size)
{
	const unsigned char *p = data;
	uint64_t progress = ct_now();
	while (size > 0) {
		size_t n = ct_link_send(p, size);
		if (n > 0) {
			p += n;
			size -= n;
			progress = ct_now();
			continue;
		}
		if (!ct_link_alive() || sending_is_over(progress))
			return false;
		ct_link_await_room(LOOK);
	}
	return true;
}

static void say_bye(void)
{
	struct {
		struct ct_frame frame;
		struct ct_bye bye;
	} m = {.frame = {.length = sizeof m.bye, .type = CT_MSG_BYE},
	       .bye = ct_bye(atomic_load(&bye_reason), 0, atomic_load(&bye_until))};
	send_all(&m, sizeof m);
}

/* Until the queue is finished and empty, or nothing can be sent any more. */
void ct_sender_run(void)
{
	bool ok = true;
	struct ct_chunk *c;
	ct_this_is_sender();
	ct_link_hold();
	while (ok && (c = ct_queue_take())) {
		ok = send_all(&c->frame, sizeof c->frame + c->used);
		ct_queue_recycle(c);
	}
	if (ok)
		say_bye();
	ct_queue_end();
	ct_reach(CT_SENT);
	ct_wake_control();
}

/* The time up to which all is flushed, for the BYE. */
void ct_sender_until(uint64_t time)
{
	atomic_store(&bye_until, time);
}

/* Has the sender end when the queue is empty; the first reason stands. */
void ct_sender_finish(uint32_t reason)
{
	uint64_t none = 0;
	unsigned unset = 0;
	atomic_compare_exchange_strong(&bye_reason, &unset, reason);
	atomic_compare_exchange_strong(&give_up, &none, ct_now() + ct_exit_wait());
	ct_queue_finish();
}
