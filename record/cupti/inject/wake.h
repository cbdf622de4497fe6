#ifndef CT_WAKE_H
#define CT_WAKE_H

#include <stdbool.h>
#include <stdint.h>

void ct_wake_start(void);
void ct_wake_control(void);
void ct_wake_flush(void);     /* has the control thread flush soon */
void ct_wake_look(void);      /* has it look at chains; safe inside CUDA calls */
bool ct_wake_handover(void);  /* has it look for handovers; safe in a signal handler */

/* For the control thread. */
uint32_t ct_wake_count(void);
void ct_wake_wait(uint32_t counted, uint64_t until);
bool ct_wake_receive(void); /* true when a flush was asked for; ct_wake_received follows */
void ct_wake_received(void);
void ct_wake_forked(void);

#endif
