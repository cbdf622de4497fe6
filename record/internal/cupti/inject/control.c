/*
 * The two threads of ours, sender and control, from their start to the program's exit, and what the control thread
 * does: it flushes CUPTI, listens to the recorder, answers handovers and
 * ends the recording while the program lives on. It must not wait for the recorder to
 * read, so that a stalled recorder never delays a flush.
 */
#include "control.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "enable.h"
#include "flush.h"
#include "memory.h"
#include "python.h"
#include "queue.h"
#include "seen.h"
#include "client.h"
#include "signals.h"
#include "torch.h"
#include "translate.h"
#include "walk.h"
#include "wire.h"

#define WAKE_PAUSE (2 * CT_MS) /* between flushes that were asked for */
#define MESSAGE_MOST 1024 /* bytes of a message's payload */
#define SENDER_STACK (256u << 10)
#define CONTROL_STACK (1u << 20) /* CUPTI runs on it */
#define FLUSH_WAIT (2 * CT_SECOND) /* at the end: for a flush in progress */

static void flush(void)
{
	uint64_t until = ct_now();
	if (ct_flush(CT_FINISHED, false))
		ct_queue_flushed(until);
}

static void with_cupti(void (*look)(const struct ct_cupti *))
{
	if (!ct_enter_cupti())
		return;
	look(ct_recording()->api);
	ct_leave_cupti(false);
}

/* Leaves CUPTI to another client, if there is one. */
static void make_place(bool (*is_there)(const struct ct_cupti *))
{
	if (!ct_enter_cupti())
		return;
	bool taken = is_there(ct_recording()->api);
	if (taken)
		ct_client_leave();
	ct_leave_cupti(taken);
}

/* As flush, and looks whether CUPTI still delivers to us, and calls us back. */
static void flush_and_look(void)
{
	ct_walk_poll();
	ct_client_poll();
	flush();
	with_cupti(ct_switch_check);
	with_cupti(ct_memory_poll);
	if (ct_match_failed())
		ct_enable_without_callers();
	make_place(ct_client_present);
}

/* The recorder has seen another client register. */
static void other_client(void)
{
	if (!ct_enter_cupti())
		return;
	ct_flush_now(CT_FINISHED); /* the other client gets the buffers that CUPTI has from us: better early than late */
	ct_client_leave();
	ct_leave_cupti(true);
}

/* A client that is about to register waits: it is to find CUPTI as if we had never been there. */
static void make_way(void)
{
	if (!ct_client_waits())
		return;
	if (ct_enter_cupti()) {
		ct_memory_end();
		ct_disable(ct_recording()->api, false);
		ct_flush_now(CT_UNFINISHED);
		ct_client_leave();
		ct_complete_start(NULL);
		ct_leave_cupti(true);
	}
	ct_client_answer();
}

/* What was on its way to the GPU before a pause is still recorded, and flushed when it is done. */
static void pause_work(bool paused)
{
	if (!ct_enter_cupti())
		return;
	ct_switch_pause(ct_recording()->api, paused);
	if (paused)
		ct_flush_now(CT_FINISHED);
	ct_leave_cupti(false);
}

static int nothing(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info, (void)size, (void)arg;
	return 1;
}

/* Takes the locks that a stopped thread of the program may hold, and CUPTI may need: malloc's and the dynamic linker's. */
static void touch_locks(void)
{
	for (size_t size = 64; size <= 1u << 20; size *= 4)
		free(malloc(size));
	dl_iterate_phdr(nothing, NULL); /* it has a lock of its own, which it holds while it calls back */
	void *program = dlopen(NULL, RTLD_NOW);
	if (program)
		dlclose(program);
}

/* Whether somebody waits for this thread, or nobody for CUPTI's end. */
static bool called_away(void)
{
	return ct_reached(CT_EXITING) || ct_handover_wanted() || ct_client_waits() || !ct_link_alive();
}

static bool forgotten; /* neither CUPTI nor threads of the program will call a function of ours any more */

bool ct_finalized(void)
{
	return forgotten;
}

/*
 * Only cuptiFinalize gives the program its speed back, and only while no thread of it is inside CUDA (H200, CUPTI 13.0.1,
 * testdata/gpu/finalize.cu): else programs died in it, called from a thread of ours and in the callback of a call's end
 * alike. So it is called while the recorder keeps all other threads stopped, and not where the program has graphs.
 */
static void finalize(const struct ct_cupti *api)
{
	_Atomic uint32_t *door = ct_link_door();
	uint32_t is = 0, first = !api->finalize ? CT_DOOR_FAILED : ct_graphs() ? CT_DOOR_GRAPHS : CT_DOOR_READY;
	atomic_compare_exchange_strong(door, &is, first); /* it may be OVER */
	while (first == CT_DOOR_READY && (is = atomic_load(door)) != CT_DOOR_OVER) {
		if (is == CT_DOOR_STOPPED && ct_link_alive()) { /* the threads of the program go on when the recorder dies */
			touch_locks();
			if (ct_link_alive() && atomic_compare_exchange_strong(door, &is, CT_DOOR_BEGUN)) {
				if (ct_graphs()) { /* records that came late told of them */
					atomic_store(door, CT_DOOR_GRAPHS);
					return;
				}
				bool ended = !ct_client_before(api) && api->finalize() == 0;
				ct_seen_forget();
				forgotten = ct_torch_forget() && ended;
				atomic_store(door, ended ? CT_DOOR_DONE : CT_DOOR_FAILED);
				return;
			}
		} else if (called_away() && atomic_compare_exchange_strong(door, &is, CT_DOOR_FAILED)) {
			return;
		}
		ct_shared_wait(door, is, CT_MS);
	}
}

/*
 * Ends recording while the program lives on: CUPTI goes off, for good with how_far FINALIZED. With UNFLUSHED nobody wants the
 * rest.
 */
enum how_far { UNFLUSHED, FLUSHED, FINALIZED };

static void detach(enum how_far how_far)
{
	const struct ct_cupti *api = ct_recording()->api;
	if (!ct_enter_cupti()) {
		uint32_t is = 0;
		if (how_far == FINALIZED && (!api || ct_reached(CT_ENDED))) /* never on, or left to another client */
			atomic_compare_exchange_strong(ct_link_door(), &is, api ? CT_DOOR_FAILED : CT_DOOR_OVER);
		return;
	}
	if (how_far == UNFLUSHED)
		ct_complete_start(NULL);
	ct_link_switching(true);
	ct_disable(api, how_far != UNFLUSHED);
	ct_memory_end(); /* last: its callbacks tell of graphs */
	ct_sender_until(ct_now());
	if (how_far != UNFLUSHED)
		ct_flush_now(CT_FINISHED);
	ct_link_switching(false);
	ct_complete_start(NULL);
	if (how_far == FINALIZED)
		finalize(api);
	ct_leave_cupti(true);
}

enum how { GOES_ON, STOPPED, FAILED };

/* Does what a message says; false when there will be no more. */
static bool obey(uint16_t type)
{
	switch (type) {
	case CT_MSG_FLUSH:
		flush();
		break;
	case CT_MSG_PAUSE:
	case CT_MSG_RESUME:
		pause_work(type == CT_MSG_PAUSE);
		break;
	case CT_MSG_OTHER_CLIENT:
		other_client();
		break;
	case CT_MSG_FINALIZE:
		detach(FINALIZED);
		break;
	case CT_MSG_STOP:
		detach(FLUSHED);
		ct_sender_finish(CT_BYE_STOP);
		return false;
	}
	return true;
}

static void take_depths(const unsigned char *p, uint32_t size)
{
	struct ct_depth d;
	for (; size >= sizeof d; p += sizeof d, size -= (uint32_t)sizeof d) {
		memcpy(&d, p, sizeof d);
		ct_match_depth(d.address, d.depth);
	}
}

static void take_python(const unsigned char *p, uint32_t size)
{
	struct ct_python python;
	if (size != sizeof python)
		return;
	memcpy(&python, p, sizeof python);
	if (ct_python_use(&python))
		ct_walk_begin();
}

static void take_torch(const unsigned char *p, uint32_t size)
{
	struct ct_torch torch;
	if (size != sizeof torch)
		return;
	memcpy(&torch, p, sizeof torch);
	ct_torch_use(&torch);
}

/* Takes the messages of the recorder that are there. */
static enum how receive(void)
{
	struct ct_frame f;
	unsigned char payload[MESSAGE_MOST];
	for (;;) {
		if (!ct_link_alive())
			return FAILED;
		enum ct_received r = ct_link_receive(&f, payload, sizeof payload);
		if (r != CT_RECEIVED)
			return r == CT_NOTHING ? GOES_ON : FAILED;
		if (f.type == CT_MSG_DEPTH)
			take_depths(payload, f.length);
		if (f.type == CT_MSG_PYTHON)
			take_python(payload, f.length);
		if (f.type == CT_MSG_TORCH)
			take_torch(payload, f.length);
		if (!obey(f.type))
			return STOPPED;
	}
}

/* Does what a thread asked for. Flushes come not much more often than one takes. */
static void answer_wake(void)
{
	bool flush_asked = ct_wake_receive();
	make_way();
	with_cupti(ct_switch_poll);
	ct_walk_poll();
	if (!flush_asked)
		return;
	flush();
	ct_pause(WAKE_PAUSE);
	ct_wake_received();
}

static void say_handover(uint32_t reason, uint32_t detail, uint64_t until)
{
	struct ct_bye m = ct_bye(reason, detail, until);
	ct_queue_message(CT_MSG_HANDOVER, &m, sizeof m, NULL, 0);
}

/*
 * Answers all requests so far. While another thread runs the exit handler, nothing is
 * answered: that thread hands over itself, and the others wait for its end.
 */
static void answer_handover(void)
{
	struct ct_request r = ct_handover_requested();
	if (ct_exiting_tid() != 0 && !r.from_exit)
		return;
	uint64_t deadline = ct_now() + ct_exit_wait();
	make_place(ct_client_present_now);
	uint64_t until = ct_final_flush(false, r.reason != CT_BYE_ASKED);
	if (ct_queue_wait_sent(deadline, CT_STALL)) {
		say_handover(r.reason, r.detail, until);
		ct_queue_wait_sent(deadline, CT_STALL);
	}
	ct_handover_release(r.number);
}

static uint64_t next_flush(void)
{
	return ct_now() + ct_recording()->flush_ms * CT_MS;
}

/* Until the recorder has said STOP (true) or is out of reach (false), or the program ends. */
static bool listen_and_flush(void)
{
	uint64_t next = next_flush();
	for (uint32_t counted = ct_wake_count() - 1, before;;) {
		before = counted;
		counted = ct_wake_count();
		enum how how = receive();
		if (how != GOES_ON || ct_reached(CT_SENT))
			return how == STOPPED;
		if (counted != before)
			answer_wake();
		if (ct_handover_wanted()) {
			answer_handover();
			next = next_flush();
		}
		if (ct_now() >= next) {
			flush_and_look();
			next = next_flush();
		}
		ct_wake_wait(counted, next);
	}
}

static void control_run(void)
{
	ct_this_is_control();
	if (listen_and_flush())
		return;
	detach(UNFLUSHED);
	ct_sender_finish(CT_BYE_FAILED);
}

/* The threads. main.c starts them, and has them end in an exit handler. */

static pthread_t sender, control;

static void *run_sender(void *arg)
{
	ct_sender_run();
	return arg;
}

static void *run_control(void *arg)
{
	control_run();
	ct_wait_reached(CT_SENT, CT_FOREVER);
	ct_thread_join(sender);
	ct_handover_end();
	if (!ct_reached(CT_EXITING))
		ct_signals_end();
	ct_reach(CT_DONE);
	return arg;
}

static bool start_both(void)
{
	if (!ct_thread_start(&sender, run_sender, SENDER_STACK, "cudatrace"))
		return false;
	if (ct_thread_start(&control, run_control, CONTROL_STACK, "cudatrace-ctl"))
		return true;
	ct_sender_finish(CT_BYE_FAILED);
	ct_thread_join(sender);
	return false;
}

bool ct_threads_start(const struct ct_recording *r)
{
	ct_recording_set(r);
	bool started = start_both();
	ct_running_set(started);
	return started;
}

static atomic_bool joined; /* somebody joins the control thread */

static void join_control(void)
{
	if (!atomic_exchange(&joined, true))
		ct_thread_join(control);
}

/* Waits until the threads have ended, while the program lives on; false when they have not. */
bool ct_threads_over(uint64_t deadline)
{
	if (!ct_running())
		return true;
	if (!ct_wait_reached(CT_DONE, deadline) || ct_reached(CT_EXITING))
		return false;
	join_control();
	ct_running_set(false);
	return true;
}

/* On the thread that exits. */
static void deliver_last(void)
{
	const struct ct_cupti *api = ct_recording()->api;
	if (api && ct_client_present_now(api))
		ct_client_leave();
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
	ct_memory_exit();
	if (idle && !ct_reached(CT_ENDED))
		deliver_last();
	ct_sender_finish(CT_BYE_EXIT);
	if (!ct_wait_reached(CT_SENT, ct_now() + ct_exit_wait() + CT_SECOND))
		return;
	if (idle && ct_wait_reached(CT_DONE, ct_now() + CT_SECOND))
		join_control();
}
