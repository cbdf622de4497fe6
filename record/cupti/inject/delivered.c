/*
 * How far CUPTI has got with delivering: buffers, the time of the last one, and the
 * newest calls and work in them. complete.c and translate.c note it in CUPTI's
 * callbacks; flush.c, final_flush.c and rival_client.c look at it. All of it is atomic:
 * nothing here waits or takes a lock.
 */
#include "delivered.h"

#include <stdatomic.h>

#include "clock.h"

static _Atomic uint64_t buffers;
static _Atomic uint64_t last; /* when a buffer came, or recording began */

static _Atomic uint32_t newest_call, newest_success, newest_work; /* correlation IDs, which grow */
static _Atomic uint32_t target;  /* the newest call whose work is awaited, 0 before an end */
static _Atomic uint64_t awaited; /* work of that call and those before */

void ct_delivered_start(void)
{
	atomic_store(&last, ct_now());
}

void ct_delivered_buffer(void)
{
	atomic_fetch_add_explicit(&buffers, 1, memory_order_relaxed);
}

uint64_t ct_delivered_buffers(void)
{
	return atomic_load(&buffers);
}

uint64_t ct_delivered_last(void)
{
	return atomic_load(&last);
}

/* A buffer has come now; returns the time of the one before. */
uint64_t ct_delivered_again(uint64_t now)
{
	return atomic_exchange(&last, now);
}

static void raise_to(_Atomic uint32_t *to, uint32_t value)
{
	uint32_t was = atomic_load_explicit(to, memory_order_relaxed);
	while (was < value && !atomic_compare_exchange_weak(to, &was, value))
		;
}

/* Called for each buffer. */
void ct_delivered_add(const struct ct_delivery *d)
{
	raise_to(&newest_call, d->newest_call);
	raise_to(&newest_success, d->newest_success);
	raise_to(&newest_work, d->newest_work);
	atomic_fetch_add(&awaited, d->awaited);
}

/* From now on work of the calls known so far is counted. A call that failed has none. */
void ct_delivered_await(void)
{
	atomic_store(&target, atomic_load(&newest_success));
}

uint32_t ct_delivered_target(void)
{
	return atomic_load(&target);
}

uint64_t ct_delivered_awaited(void)
{
	return atomic_load(&awaited);
}

/* Whether the newest call whose work is awaited has no work yet, nor has any later one. */
bool ct_delivered_lacks_target(void)
{
	return atomic_load(&newest_work) < atomic_load(&target);
}

/* Whether there is work that is newer than every call. */
bool ct_delivered_lacks_calls(void)
{
	return atomic_load(&newest_work) > atomic_load(&newest_call);
}
