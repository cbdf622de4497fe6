#ifndef CT_THREAD_STATE_H
#define CT_THREAD_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "cupti_abi.h"

#define CT_STALL (1500 * CT_MS) /* at the end: longest time in which nothing moves */

/* The recording, as it was agreed on with the recorder. */
struct ct_recording {
	uint32_t flush_ms;
	uint32_t exit_ms;
	const struct ct_cupti *api; /* NULL when no records are made */
	bool watch_rivals;          /* look for another CUPTI client */
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
bool ct_is_control(void);
void ct_this_is_sender(void);
void ct_this_exits(void);
uint32_t ct_control_tid(void); /* 0 before it runs, as the next */
uint32_t ct_exiting_tid(void); /* of the thread that runs the exit handler */
bool ct_is_own_thread(uint32_t tid);
bool ct_is_own_call(uint32_t tid, uint64_t start, bool counts_devices);

#endif
