/*
 * The bell by which other threads wake the control thread. pool.c rings it when CUPTI
 * holds many buffers, walk.c inside CUDA calls, handover.c in handlers of signals. Nothing may be called
 * here that waits or takes a lock.
 *
 * The bell is a futex, so that ringing and waiting need no descriptor, and no system call that sandboxes
 * refuse. It lies in the memory that the recorder shares, and the recorder rings it when it has sent a
 * message. A recorder that dies does not ring, so the control thread looks now and then.
 */
#include "wake.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "link.h"
#include "lock.h"
#include "thread_state.h"

#define LONGEST CT_SECOND /* between looks at the recorder */

static _Atomic uint32_t own;
static _Atomic uint32_t *bell = &own;
static atomic_bool woken, looking;

void ct_wake_start(void)
{
	bell = ct_link_bell();
}

void ct_wake_control(void)
{
	atomic_fetch_add(bell, 1);
	ct_shared_wake(bell);
}

void ct_wake_flush(void)
{
	if (ct_running() && !atomic_exchange(&woken, true))
		ct_wake_control();
}

void ct_wake_look(void)
{
	if (ct_running() && !atomic_exchange(&looking, true))
		ct_wake_control();
}

/* False when there is no control thread, or the caller is a thread of ours. */
bool ct_wake_handover(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	if (!ct_running() || ct_is_own_thread(tid))
		return false;
	ct_wake_control();
	return true;
}

uint32_t ct_wake_count(void)
{
	return atomic_load(bell);
}

/* Waits until the bell has rung since it was counted, or until a time. */
void ct_wake_wait(uint32_t counted, uint64_t until)
{
	uint64_t now = ct_now();
	if (now < until)
		ct_shared_wait(bell, counted, until - now < LONGEST ? until - now : LONGEST);
}

bool ct_wake_receive(void)
{
	atomic_store(&looking, false);
	return atomic_load(&woken);
}

/* From now on a wish to flush wakes the control thread again. */
void ct_wake_received(void)
{
	atomic_store(&woken, false);
}

/* In a forked child: the bell is the parent's. */
void ct_wake_forked(void)
{
	bell = &own;
}
