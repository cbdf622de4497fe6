/*
 * The clocks of the machine, in nanoseconds. Every file reads them here, signal
 * handlers too, so nothing may be called that is not safe in one.
 */
#include "clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;
	if (clock_gettime(id, &t) != 0)
		return 0;
	return (uint64_t)t.tv_sec * CT_SECOND + (uint64_t)t.tv_nsec;
}

uint64_t ct_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t ct_realtime(void)
{
	return read_clock(CLOCK_REALTIME);
}
