/* API records are stamped by the client's timestamp callback, GPU records by
 * the GPU's clock, moved onto the callback's by an offset found once. */
#include <pthread.h>

#include "internal.h"

#define BRACKETS 200

static _Atomic(CUptiTimestamp) callback;
static _Atomic int64_t offset; /* client's clock - CLOCK_MONOTONIC */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t realtime(void)
{
	return sim_clock(CLOCK_REALTIME);
}

/* The difference between the clocks, from the tightest of many brackets; 0 where all brackets
 * allow 0, so that a monotonic callback is matched to the nanosecond. */
static int64_t difference(CUptiTimestamp clock)
{
	uint64_t tightest = UINT64_MAX;
	int64_t best = 0;
	bool same = true;
	for (int i = 0; i < BRACKETS; i++) {
		uint64_t before = sim_now(), there = clock(), after = sim_now();
		same &= there >= before && there <= after;
		if (after - before < tightest) {
			tightest = after - before;
			best = (int64_t)(there - (before + (after - before) / 2));
		}
	}
	return same ? 0 : best;
}

static void start(void)
{
	if (!atomic_load(&callback))
		atomic_store(&offset, difference(realtime));
}

uint64_t cupti_gpu_time(uint64_t mono)
{
	pthread_once(&once, start);
	return mono + (uint64_t)atomic_load_explicit(&offset, memory_order_relaxed);
}

/* After so many calls of the callback another client registers its own. */
static void count_call(uint64_t most)
{
	static _Atomic uint64_t calls;
	if (most != 0 && atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1 == most)
		atomic_store(&callback, sim_now);
}

/* Two calls in a row: one of them is the start of a call. */
static bool left_out(uint64_t first)
{
	static _Atomic uint64_t calls;
	if (first == 0)
		return false;
	uint64_t number = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1;
	return number == first || number == first + 1;
}

uint64_t cupti_clock(void)
{
	CUptiTimestamp f = atomic_load_explicit(&callback, memory_order_relaxed);
	count_call(sim_config()->callback_calls);
	if (f && left_out(sim_config()->callback_skip))
		f = NULL;
	return f ? f() : cupti_gpu_time(sim_now());
}

CUPTI(cuptiActivityRegisterTimestampCallback, (CUptiTimestamp f))
{
	if (!f)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (sim_config()->callback_error)
		return (CUptiResult)sim_config()->callback_error;
	if (sim_config()->no_callback)
		return CUPTI_SUCCESS;
	pthread_once(&once, start);
	if (!sim_config()->ignore_for_gpu)
		atomic_store(&offset, difference(f));
	atomic_store(&callback, f);
	return CUPTI_SUCCESS;
}

CUPTI(cuptiGetTimestamp, (uint64_t *out))
{
	if (!out)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*out = cupti_clock();
	return CUPTI_SUCCESS;
}
