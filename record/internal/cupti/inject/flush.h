#ifndef CT_FLUSH_H
#define CT_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

/* Buffers that CUPTI has delivered. */
void ct_delivered_start(void);
void ct_delivered_buffer(void);
uint64_t ct_delivered_buffers(void);
uint64_t ct_delivered_flushes(void);
uint64_t ct_delivered_last(void);
uint64_t ct_delivered_again(uint64_t now);

/* What a buffer holds, by correlation IDs. */
struct ct_delivery {
	uint32_t newest_call, newest_success; /* largest ID: of a call that makes work, of one that has not failed */
	uint32_t newest_work;                 /* of work */
	uint32_t awaited;                     /* pieces of work that were awaited */
	uint32_t flushes;                     /* what flushes cost, a record each */
};
void ct_delivered_add(const struct ct_delivery *d);
uint32_t ct_delivered_target(void);

#define CT_FINISHED 0u   /* work that has ended is delivered */
#define CT_UNFINISHED 1u /* and, for good, work that still runs or has not begun */

bool ct_flush(uint32_t forced, bool at_exit);
void ct_flush_begin(void);
void ct_flush_now(uint32_t forced);
bool ct_flush_forced(void);

/* The last flushes. */
uint64_t ct_final_flush(bool at_exit, bool final);
void ct_flush_calls(void);

/* For a thread that is about to end the program; safe in a signal handler. */
bool ct_handover(uint32_t reason, uint32_t detail, bool may_leave);
bool ct_handover_wanted(void);
void ct_handover_on_release(void (*f)(void));

/* For the control thread. */
struct ct_request {
	uint32_t number;
	uint32_t reason, detail; /* as in a ct_bye */
	bool from_exit;          /* its thread was running the exit handler */
};
struct ct_request ct_handover_requested(void);
void ct_handover_release(uint32_t number);
void ct_handover_end(void);
void ct_handover_last(void);
uint64_t ct_handover_over(void);

#endif
