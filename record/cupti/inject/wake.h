#ifndef CT_WAKE_H
#define CT_WAKE_H

#include <stdbool.h>

bool ct_wake_start(void);
void ct_wake_flush(void);     /* has the control thread flush soon */
void ct_wake_look(void);      /* has it look at chains; safe inside CUDA calls */
bool ct_wake_handover(void);  /* has it look for handovers; safe in a signal handler */
int ct_wake_fd(void);         /* for the control thread to poll; -1 when the program has closed it */
bool ct_wake_receive(void);   /* true when a flush was asked for; ct_wake_received follows */
void ct_wake_received(void);
void ct_wake_forked(void);

#endif
