#ifndef CT_HANDOVER_H
#define CT_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
