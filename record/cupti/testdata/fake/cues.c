/*
 * To be preloaded. Lets a test stop the clock that the injected library reads, and takes
 * the limit off the library's wait for READY, so that neither depends on how fast the
 * machine is.
 */
#include <poll.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>

#include "cues.h"

#define READY_MS 201 /* of the library's polls for READY, at most */

static _Atomic uint64_t *cues; /* NULL before the constructor */

__attribute__((constructor)) static void prepare(void)
{
	cues = cues_open();
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	uint64_t stopped = cues && id == CLOCK_MONOTONIC ? cues[CUE_TIME] : 0;
	if (stopped == 0)
		return (int)syscall(SYS_clock_gettime, id, t);
	t->tv_sec = (time_t)(stopped / 1000000000u);
	t->tv_nsec = (long)(stopped % 1000000000u);
	return 0;
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l};
	int main_thread = syscall(SYS_gettid) == getpid();
	if (cues && main_thread && n == 1 && fds->events == POLLIN && ms > 0 && ms <= READY_MS) {
		cues[CUE_READY_WAITS]++;
		ms = -1;
	}
	return (int)syscall(SYS_ppoll, fds, n, ms < 0 ? NULL : &wait, NULL, 0);
}
