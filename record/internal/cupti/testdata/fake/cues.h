#ifndef CUES_H
#define CUES_H

/*
 * What a test and a program tell each other while the program runs: words of 8 bytes in
 * a file that FAKE_CUES names. Both sides look at them whenever they like.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	CUE_TIME,           /* by the test: CLOCK_MONOTONIC stands still at this, ns; 0: it runs */
	CUE_HANG,           /* by the test: flushes hang until it is 0 */
	CUE_FLUSHES_BEGUN,  /* of CUPTI */
	CUE_FLUSHES_DONE,
	CUE_READY_WAITS,    /* the main thread waits for READY */
	CUE_HELD,           /* the main thread holds a lock that a flush needs */
	CUES
};

/* Words of the file or, without one, of our own. */
static inline _Atomic uint64_t *cues_open(void)
{
	static _Atomic uint64_t own[CUES];
	const char *path = getenv("FAKE_CUES");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return own;
	void *p = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? own : p;
}

#endif
