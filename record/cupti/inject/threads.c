/*
 * The two threads of ours, sender and control, from their start to the program's exit.
 * main.c starts them, and has them end in an exit handler. They must not take signals, which belong to the program.
 */
#include "threads.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "clock.h"
#include "control.h"
#include "final_flush.h"
#include "handover.h"
#include "link.h"
#include "lock.h"
#include "queue.h"
#include "rival_client.h"
#include "sender.h"
#include "sigmask.h"
#include "signals.h"
#include "wake.h"
#include "wire.h"

#define SENDER_STACK (256u << 10)
#define CONTROL_STACK (1u << 20) /* CUPTI runs on it */
#define FLUSH_WAIT (2 * CT_SECOND) /* at the end: for a flush in progress */

static pthread_t sender, control;

/* glibc ends the program where it cannot wait: the thread has ended then, or is about to. */
static void join(pthread_t t)
{
	if (!ct_futex_refused())
		pthread_join(t, NULL);
}

static void *run_sender(void *arg)
{
	ct_sender_run();
	return arg;
}

static void *run_control(void *arg)
{
	ct_control_run();
	ct_wait_reached(CT_SENT, CT_FOREVER);
	join(sender);
	ct_handover_end();
	if (!ct_reached(CT_EXITING))
		ct_signals_end();
	ct_reach(CT_DONE);
	return arg;
}

static bool start_thread(pthread_t *t, void *(*run)(void *), size_t stack, const char *name)
{
	pthread_attr_t attr;
	if (pthread_attr_init(&attr) != 0)
		return false;
	pthread_attr_setstacksize(&attr, stack);
	int r = pthread_create(t, &attr, run, NULL);
	if (r != 0) /* a program with much thread-local data needs the usual stack */
		r = pthread_create(t, NULL, run, NULL);
	pthread_attr_destroy(&attr);
	if (r == 0)
		pthread_setname_np(*t, name);
	return r == 0;
}

static bool start_both(void)
{
	if (!start_thread(&sender, run_sender, SENDER_STACK, "cudatrace"))
		return false;
	if (start_thread(&control, run_control, CONTROL_STACK, "cudatrace-ctl"))
		return true;
	ct_queue_finish();
	join(sender);
	return false;
}

/* Starts both threads with all signals blocked. */
bool ct_threads_start(const struct ct_recording *r)
{
	sigset_t before;
	ct_recording_set(r);
	ct_wake_start();
	ct_sigmask_block(&before);
	bool started = start_both();
	ct_sigmask_restore(&before);
	ct_running_set(started);
	return started;
}

/* On the thread that exits. */
static void deliver_last(void)
{
	const struct ct_cupti *api = ct_recording()->api;
	if (api && ct_rival_client_now(api))
		ct_rival_leave();
	else
		ct_sender_until(ct_final_flush(true, true));
}

/*
 * The program ends: the last flushes, the rest of the queue, BYE. When the control
 * thread hangs in CUPTI, CUPTI is left alone.
 */
void ct_threads_exit(void)
{
	if (!ct_running())
		return;
	ct_this_exits();
	ct_reach(CT_EXITING);
	bool idle = ct_wait_outside_cupti(ct_now() + FLUSH_WAIT);
	if (idle && !ct_reached(CT_ENDED))
		deliver_last();
	ct_sender_finish(CT_BYE_EXIT);
	if (!ct_wait_reached(CT_SENT, ct_now() + ct_exit_wait() + CT_SECOND))
		return;
	if (idle && ct_wait_reached(CT_DONE, ct_now() + CT_SECOND))
		join(control);
}

/* In a forked child: the threads and the link are the parent's. */
void ct_threads_forked(void)
{
	if (!ct_running())
		return;
	ct_wake_forked();
	ct_link_forked();
}
