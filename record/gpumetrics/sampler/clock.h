/* Clock readings in nanoseconds. */
#ifndef GS_CLOCK_H
#define GS_CLOCK_H

#include <stdint.h>
#include <time.h>

#define GS_MS 1000000u

static inline uint64_t gs_clock(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t gs_now(void)
{
	return gs_clock(CLOCK_MONOTONIC);
}

/* How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC: of some readings the one that took least. */
static inline uint64_t gs_realtime_ahead(void)
{
	uint64_t ahead = 0, least = UINT64_MAX;
	for (int i = 0; i < 5; i++) {
		uint64_t before = gs_now(), real = gs_clock(CLOCK_REALTIME), took = gs_now() - before;
		if (took < least) {
			least = took;
			ahead = real - (before + took / 2);
		}
	}
	return ahead;
}

#endif
