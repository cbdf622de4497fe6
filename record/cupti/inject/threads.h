#ifndef CT_THREADS_H
#define CT_THREADS_H

#include <stdbool.h>

#include "thread_state.h"

bool ct_threads_start(const struct ct_recording *r);
void ct_threads_exit(void);
void ct_threads_forked(void);

#endif
