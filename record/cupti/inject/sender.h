#ifndef CT_SENDER_H
#define CT_SENDER_H

#include <stdint.h>

void ct_sender_run(void);
void ct_sender_until(uint64_t time);
void ct_sender_finish(uint32_t reason);

#endif
