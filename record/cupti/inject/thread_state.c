/*
 * What the threads of a recording share: its settings, how far its end
 * has come, which threads are ours, and whether the control thread is in CUPTI.
 * threads.c sets it up, all threads read it, signal handlers read the atomic parts.
 * Nothing of it may call CUPTI or send.
 */
#include "thread_state.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock.h"

static struct ct_recording recording;
static atomic_bool running; /* both threads were started */
static _Atomic uint32_t control_tid, sender_tid, exit_tid;
static _Atomic uint64_t exits_from; /* when exit_tid began to */

static struct ct_lock lock;
static struct ct_condition changed;
static bool in_cupti; /* the control thread is in a call of CUPTI */
static bool reached[CT_STAGES];

/* Called once, before the threads start. */
void ct_recording_set(const struct ct_recording *r)
{
	recording = *r;
}

const struct ct_recording *ct_recording(void)
{
	return &recording;
}

/* How long the program's end may wait for the recorder, ns. */
uint64_t ct_exit_wait(void)
{
	return recording.exit_ms * CT_MS;
}

void ct_reach(enum ct_stage stage)
{
	ct_lock(&lock);
	reached[stage] = true;
	ct_condition_tell(&changed);
	ct_unlock(&lock);
}

bool ct_reached(enum ct_stage stage)
{
	ct_lock(&lock);
	bool value = reached[stage];
	ct_unlock(&lock);
	return value;
}

/* Waits for a flag to get a value; false when the deadline is over. */
static bool wait_flag(const bool *flag, bool value, uint64_t deadline)
{
	uint64_t now;
	ct_lock(&lock);
	while (*flag != value && (now = ct_now()) < deadline)
		ct_condition_wait(&changed, &lock, deadline - now);
	bool is = *flag == value;
	ct_unlock(&lock);
	return is;
}

bool ct_wait_reached(enum ct_stage stage, uint64_t deadline)
{
	return wait_flag(&reached[stage], true, deadline);
}

bool ct_wait_outside_cupti(uint64_t deadline)
{
	return wait_flag(&in_cupti, false, deadline);
}

/* True when the control thread may call CUPTI now; ct_leave_cupti follows. */
bool ct_enter_cupti(void)
{
	ct_lock(&lock);
	bool allowed = recording.api && !reached[CT_EXITING] && !reached[CT_ENDED];
	in_cupti = allowed;
	ct_unlock(&lock);
	return allowed;
}

void ct_leave_cupti(bool end)
{
	ct_lock(&lock);
	in_cupti = false;
	reached[CT_ENDED] = reached[CT_ENDED] || end;
	ct_condition_tell(&changed);
	ct_unlock(&lock);
}

void ct_running_set(bool value)
{
	atomic_store(&running, value);
}

bool ct_running(void)
{
	return atomic_load(&running);
}

static uint32_t this_tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

void ct_this_is_control(void)
{
	atomic_store(&control_tid, this_tid());
}

bool ct_is_control(void)
{
	return this_tid() == atomic_load(&control_tid);
}

void ct_this_is_sender(void)
{
	atomic_store(&sender_tid, this_tid());
}

void ct_this_exits(void)
{
	atomic_store(&exits_from, ct_now());
	atomic_store(&exit_tid, this_tid());
}

uint32_t ct_control_tid(void)
{
	return atomic_load_explicit(&control_tid, memory_order_relaxed);
}

uint32_t ct_exiting_tid(void)
{
	return atomic_load(&exit_tid);
}

/*
 * Whether a call was made by us: by the control thread, or by the thread that exits, since it does. Only
 * cuDeviceGetCount is called there.
 */
bool ct_is_own_call(uint32_t tid, uint64_t start, bool counts_devices)
{
	return tid == ct_control_tid() || (counts_devices && tid == ct_exiting_tid() && start >= atomic_load(&exits_from));
}

bool ct_is_own_thread(uint32_t tid)
{
	return tid == atomic_load(&control_tid) || tid == atomic_load(&sender_tid);
}
