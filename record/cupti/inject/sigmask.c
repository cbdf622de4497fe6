/*
 * Blocking all signals for a while. Threads of the program do so while they hold locks
 * of ours: were one interrupted there, its own handover would wait for it. The threads
 * of ours are started so, since signals belong to the program.
 */
#include "sigmask.h"

#include <pthread.h>

#define UNBLOCKED SIGKILL /* no thread blocks it: in a mask, it says that nothing was blocked */

void ct_sigmask_block(sigset_t *before)
{
	sigset_t all;
	sigfillset(&all);
	sigemptyset(before);
	if (pthread_sigmask(SIG_SETMASK, &all, before) != 0)
		sigaddset(before, UNBLOCKED);
}

void ct_sigmask_restore(const sigset_t *before)
{
	if (!sigismember(before, UNBLOCKED))
		pthread_sigmask(SIG_SETMASK, before, NULL);
}
