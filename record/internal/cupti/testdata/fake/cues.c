/*
 * To be preloaded. Lets a test stop the clock that the injected library reads, and takes
 * the limit off the library's wait for READY, so that neither depends on how fast the
 * machine is.
 */
#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cues.h"

static _Atomic uint64_t *cues; /* NULL before the constructor */

/* libc's functions, which those of this file stand before. Sanitizers call them before any constructor. */
static void next(const char *name, void *to)
{
	void *found = dlsym(RTLD_NEXT, name);
	memcpy(to, &found, sizeof found);
}

static long (*libc_syscall(void))(long, ...)
{
	static long (*f)(long, ...);
	if (!f)
		next("syscall", &f);
	return f;
}

__attribute__((constructor)) static void prepare(void)
{
	cues = cues_open();
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	uint64_t stopped = cues && id == CLOCK_MONOTONIC ? cues[CUE_TIME] : 0;
	if (stopped == 0)
		return (int)libc_syscall()(SYS_clock_gettime, id, t);
	t->tv_sec = (time_t)(stopped / 1000000000u);
	t->tv_nsec = (long)(stopped % 1000000000u);
	return 0;
}

/* The vDSO is not found, so that the library reads the clock by syscall. */
void *dlopen(const char *name, int flags)
{
	static void *(*f)(const char *, int);
	if (!f)
		next("dlopen", &f);
	return name && strcmp(name, "linux-vdso.so.1") == 0 ? NULL : f(name, flags);
}

/* The main thread waits on a futex that is shared with the recorder for READY alone. */
long syscall(long number, ...)
{
	long a[6];
	va_list list;
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_clock_gettime)
		return clock_gettime((clockid_t)a[0], (struct timespec *)a[1]);
	if (cues && number == SYS_futex && a[1] == FUTEX_WAIT && libc_syscall()(SYS_gettid) == getpid()) {
		cues[CUE_READY_WAITS]++;
		a[3] = 0; /* no limit */
	}
	return libc_syscall()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
