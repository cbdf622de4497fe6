/*
 * The sender thread: it writes what the queue holds to the recorder, then a BYE. It
 * waits for a slow recorder as long as the program lives. It must not call CUPTI, so
 * that a slow flush never delays the sending.
 */
#include "sender.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "bye.h"
#include "clock.h"
#include "lock.h"
#include "opencalls.h"
#include "queue.h"
#include "sock.h"
#include "thread_state.h"
#include "wake.h"
#include "wire.h"

/* Between tries, while the recorder is slow: poll is what sandboxes refuse. */
#define PAUSE_MIN (CT_MS / 2)
#define PAUSE_MAX (8 * CT_MS)

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

/* Tells the recorder why nothing comes any more. */
static bool failed(uint32_t what, int error)
{
	ct_open_failed(what, error);
	return false;
}

/* Sends it all, however long the recorder takes, until the end is near. */
static bool send_all(const void *data, size_t size)
{
	const unsigned char *p = data;
	int fd = ct_recording()->fd;
	uint64_t progress = ct_now(), pause = PAUSE_MIN;
	while (size > 0) {
		if (!ct_connected())
			return failed(CT_FAILED_CLOSED, errno);
		ssize_t n = ct_send_some(fd, p, size);
		if (n > 0) {
			p += n;
			size -= (size_t)n;
			progress = ct_now();
			pause = PAUSE_MIN;
			continue;
		}
		if (n == 0 || !ct_transient(errno))
			return failed(CT_FAILED_SEND, n == 0 ? 0 : errno);
		if (sending_is_over(progress))
			return false;
		ct_pause(pause);
		pause = pause < PAUSE_MAX ? pause * 2 : PAUSE_MAX;
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
