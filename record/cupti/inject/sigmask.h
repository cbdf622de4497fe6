#ifndef CT_SIGMASK_H
#define CT_SIGMASK_H

#include <signal.h>

void ct_sigmask_block(sigset_t *before);
void ct_sigmask_restore(const sigset_t *before);

#endif
