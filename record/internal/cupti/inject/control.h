#ifndef CT_CONTROL_H
#define CT_CONTROL_H

#include <stdbool.h>

#include "link.h"

bool ct_threads_start(const struct ct_recording *r);
void ct_threads_exit(void);
bool ct_threads_over(uint64_t deadline);
bool ct_finalized(void);

#endif
