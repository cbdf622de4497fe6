/*
 * Blocking all signals for a while. Threads of the program do so while they hold locks
 * of ours: were one interrupted there, its own handover would wait for it. The threads
 * of ours are started so, since signals belong to the program.
 */
#include "sigmask.h"

#include <pthread.h>

void ct_sigmask_block(sigset_t *before)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
}

void ct_sigmask_restore(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
}
