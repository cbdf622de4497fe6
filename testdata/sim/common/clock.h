/* Clock readings in nanoseconds. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SIM_NEVER UINT64_MAX

static inline uint64_t sim_clock(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t sim_now(void)
{
	return sim_clock(CLOCK_MONOTONIC);
}

static inline struct timespec sim_timespec(uint64_t ns)
{
	if (ns > UINT64_C(9000000000000000000)) /* keep tv_sec in range: no time is centuries away */
		ns = UINT64_C(9000000000000000000);
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

#endif
