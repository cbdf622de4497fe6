#ifndef CT_LINK_H
#define CT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base.h"
#include "cupti_abi.h"
#include "wire.h"

/* The memory that is shared with the recorder. */
#define CT_LINK_MEMORIES 2 /* descriptors that come with GO */

struct ct_shared *ct_link_start(const int passed[CT_LINK_MEMORIES], size_t *behind);
void ct_link_end(void);
void ct_link_forget(void);
bool ct_link_alive(void);
bool ct_link_await_left(uint64_t deadline);
_Atomic uint32_t *ct_link_door(void);
void ct_link_switching(bool begins);

/* For the sender alone, and before its start. */
void ct_link_hold(void);
size_t ct_link_send(const void *data, size_t size);
void ct_link_await_room(uint64_t ns);

/* For the control thread alone, and before its start. */
enum ct_received { CT_NOTHING, CT_RECEIVED, CT_NONSENSE };
enum ct_received ct_link_receive(struct ct_frame *frame, void *payload, size_t most);
void ct_link_await_message(uint64_t deadline);

/* The recording, as it was agreed on with the recorder. */
#define CT_STALL (1500 * CT_MS) /* at the end: longest time in which nothing moves */

struct ct_recording {
	uint32_t flush_ms;
	uint32_t exit_ms;
	const struct ct_cupti *api; /* NULL when no records are made */
	bool watch_clients;          /* look for another CUPTI client */
};
void ct_recording_set(const struct ct_recording *r);
const struct ct_recording *ct_recording(void);
uint64_t ct_exit_wait(void);

/* Stages of the recording, each reached once. */
enum ct_stage {
	CT_EXITING, /* the program runs exit handlers: the control thread never calls CUPTI again */
	CT_ENDED,   /* recording is over: the recorder is gone or said STOP, or another client came */
	CT_SENT,    /* the sender is through */
	CT_DONE,    /* the control thread is through */
	CT_STAGES
};
void ct_reach(enum ct_stage stage);
bool ct_reached(enum ct_stage stage);
bool ct_wait_reached(enum ct_stage stage, uint64_t deadline);

/* Whether the control thread is in a call of CUPTI. */
bool ct_enter_cupti(void);
void ct_leave_cupti(bool end);
bool ct_wait_outside_cupti(uint64_t deadline);

/* The threads. */
void ct_running_set(bool running);
bool ct_running(void);
void ct_this_is_control(void);
void ct_this_is_sender(void);
void ct_this_exits(void);
uint32_t ct_exiting_tid(void); /* of the thread that runs the exit handler, 0 before one does */
bool ct_is_own_call(uint32_t tid, uint64_t start, bool counts_devices);
void ct_threads_forked(void);

/* The bell that wakes the control thread. */
void ct_wake_control(void);
void ct_wake_flush(void);    /* has the control thread flush soon */
void ct_wake_look(void);     /* has it look at chains; safe inside CUDA calls */

/* What a thread asks of the control thread, and waits for; safe in a signal handler. */
struct ct_question {
	_Atomic uint32_t asked, answered; /* numbers: of the latest question, of the latest that is answered */
};
uint32_t ct_ask(struct ct_question *q); /* the question's number; 0 where nobody can answer */
bool ct_unanswered(const struct ct_question *q, uint32_t number);
void ct_await_answer(struct ct_question *q, uint32_t number); /* for a moment */

/* For the control thread. */
uint32_t ct_wake_count(void);
void ct_wake_wait(uint32_t counted, uint64_t until);
bool ct_wake_receive(void); /* true when a flush was asked for; ct_wake_received follows */
void ct_wake_received(void);
uint32_t ct_asked(const struct ct_question *q);
void ct_answer(struct ct_question *q, uint32_t number); /* up to this one */

#endif
