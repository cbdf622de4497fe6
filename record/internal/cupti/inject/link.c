/*
 * What the threads of a recording share: the memory in which they meet the recorder, how far the recording has come,
 * and the bell that wakes the control thread. The first part is two rings of bytes, whose layout wire.h has: the
 * sender writes to one, the control thread reads the other. A sandbox may kill for any system call but futex, which
 * CUDA needs: no other is made here after the start. Nothing here may call CUPTI.
 */
#include "link.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct ct_shared *own;        /* the memory of this process; NULL without, and in a forked child */
static struct ct_recorder *recorder; /* of all processes */

_Static_assert(sizeof(pthread_mutex_t) <= sizeof own->sender, "the sender's mutex");

/*
 * Maps the memory of this process, with so many bytes behind it or none, and that of the recorder, and closes their
 * descriptors. NULL if either is missing.
 */
struct ct_shared *ct_link_start(const int passed[CT_LINK_MEMORIES], size_t *behind)
{
	long size = passed[0] >= 0 ? syscall(SYS_lseek, passed[0], 0, SEEK_END) : -1;
	if (size < (long)(sizeof *own + *behind)) /* memory behind a file's end kills */
		*behind = 0;
	if (size >= (long)sizeof *own)
		own = ct_map_shared(passed[0], sizeof *own + *behind);
	if (passed[1] >= 0)
		recorder = ct_map_shared(passed[1], sizeof *recorder);
	for (int i = 0; i < CT_LINK_MEMORIES; i++)
		if (passed[i] >= 0)
			close(passed[i]);
	return own && recorder ? own : NULL;
}

/* The kernel marks the word of a recorder that has died. */
static bool recorder_died(void)
{
	return (atomic_load(&recorder->life) & CT_DIED) != 0;
}

/* Whether the recorder listens. */
bool ct_link_alive(void)
{
	return atomic_load(&own->left) == 0 && !recorder_died();
}

/* Waits until the recorder has left, as one that is killed never does, or the program ends. False if it has not. */
bool ct_link_await_left(uint64_t deadline)
{
	while (ct_link_alive() && ct_now() < deadline && !ct_reached(CT_EXITING))
		ct_shared_wait(&own->left, 0, CT_MS);
	return atomic_load(&own->left) != 0;
}

_Atomic uint32_t *ct_link_door(void)
{
	return &own->door;
}

/*
 * Calls of CUPTI that switch records or callbacks, or that end them, begin or end. Such a call waits for locks that threads
 * of the program take again and again: the recorder may see it wait, and stop those threads.
 */
void ct_link_switching(bool begins)
{
	if (own)
		atomic_fetch_add(&own->switching, begins ? 1u : -1u);
}

/*
 * The calling thread is the sender. The mutex is robust and never unlocked: the kernel marks it
 * when the thread ends, in exec and after SIGKILL too.
 */
void ct_link_hold(void)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t *sender = (pthread_mutex_t *)(void *)own->sender;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(sender, &attr);
	pthread_mutex_lock(sender);
}

static void wake_recorder(void)
{
	if (atomic_exchange(&recorder->asleep, 0) != 0)
		ct_shared_wake(&recorder->asleep);
}

/* Nothing more is sent. */
void ct_link_end(void)
{
	atomic_store(&own->closed, 1);
	wake_recorder();
}

/* The threads of the recording have ended. */
void ct_link_forget(void)
{
	if (own)
		ct_forget_shared(own, sizeof *own); /* what is behind it stays: a thread may write there */
	if (recorder)
		ct_forget_shared(recorder, sizeof *recorder);
}

static size_t room(const struct ct_ring *r)
{
	uint64_t used = atomic_load(&r->written) - atomic_load(&r->read);
	return used < CT_OUT_SIZE ? (size_t)(CT_OUT_SIZE - used) : 0;
}

/* Sends as much as there is room for; returns its size. */
size_t ct_link_send(const void *data, size_t size)
{
	struct ct_ring *r = &own->out;
	size_t n = room(r), at = atomic_load_explicit(&r->written, memory_order_relaxed) % CT_OUT_SIZE;
	if (n > size)
		n = size;
	size_t first = n < CT_OUT_SIZE - at ? n : CT_OUT_SIZE - at;
	memcpy(own->out_data + at, data, first);
	memcpy(own->out_data, (const unsigned char *)data + first, n - first);
	if (n == 0)
		return 0;
	atomic_fetch_add(&r->written, n);
	wake_recorder();
	return n;
}

/* Waits for room. It may return early. */
void ct_link_await_room(uint64_t ns)
{
	struct ct_ring *r = &own->out;
	atomic_store(&r->waits, 1);
	if (room(r) == 0)
		ct_shared_wait(&r->waits, 1, ns);
}

static void take(void *data, uint64_t from, size_t size)
{
	size_t at = from % CT_IN_SIZE, first = size < CT_IN_SIZE - at ? size : CT_IN_SIZE - at;
	memcpy(data, own->in_data + at, first);
	memcpy((unsigned char *)data + first, own->in_data, size - first);
}

/* Takes a message. The recorder writes whole ones. */
enum ct_received ct_link_receive(struct ct_frame *frame, void *payload, size_t most)
{
	struct ct_ring *r = &own->in;
	uint64_t read = atomic_load_explicit(&r->read, memory_order_relaxed), there = atomic_load(&r->written) - read;
	if (there == 0)
		return CT_NOTHING;
	if (there < sizeof *frame || there > CT_IN_SIZE)
		return CT_NONSENSE;
	take(frame, read, sizeof *frame);
	if (frame->length > most || frame->length > there - sizeof *frame)
		return CT_NONSENSE;
	take(payload, read + sizeof *frame, frame->length);
	atomic_store(&r->read, read + sizeof *frame + frame->length);
	return CT_RECEIVED;
}

/* Waits for a message, which stays where it is. */
void ct_link_await_message(uint64_t deadline)
{
	struct ct_ring *r = &own->in;
	for (uint64_t now; (now = ct_now()) < deadline && ct_link_alive();) {
		uint32_t rung = atomic_load(&own->bell);
		if (atomic_load(&r->written) != atomic_load(&r->read))
			return;
		ct_shared_wait(&own->bell, rung, deadline - now);
	}
}

/* The recording: its settings, how far its end has come, and its threads. */
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

void ct_this_is_control(void)
{
	atomic_store(&control_tid, ct_tid());
}

void ct_this_is_sender(void)
{
	atomic_store(&sender_tid, ct_tid());
}

void ct_this_exits(void)
{
	atomic_store(&exits_from, ct_now());
	atomic_store(&exit_tid, ct_tid());
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
	return tid == atomic_load_explicit(&control_tid, memory_order_relaxed) ||
	       (counts_devices && tid == ct_exiting_tid() && start >= atomic_load(&exits_from));
}

/*
 * The bell by which other threads wake the control thread: inside CUDA calls, and in handlers of signals. It is a
 * futex, so that ringing and waiting need no descriptor. It lies in the memory that the recorder shares, and the
 * recorder rings it when it has sent a message. A recorder that dies does not ring, so the control thread looks
 * now and then.
 */
#define LOOK CT_SECOND /* between looks at the recorder */

static atomic_bool woken, looking;

static _Atomic uint32_t *bell(void)
{
	static _Atomic uint32_t unheard;
	return own ? &own->bell : &unheard;
}

void ct_wake_control(void)
{
	atomic_fetch_add(bell(), 1);
	ct_shared_wake(bell());
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

#define SLICE (10 * CT_MS) /* between looks whether there is still a reason to wait */

/* None where there is no control thread, or the caller is a thread of ours. */
uint32_t ct_ask(struct ct_question *q)
{
	uint32_t tid = ct_tid();
	if (!ct_running() || tid == atomic_load(&control_tid) || tid == atomic_load(&sender_tid))
		return 0;
	uint32_t number = atomic_fetch_add(&q->asked, 1) + 1;
	ct_wake_control();
	return number;
}

bool ct_unanswered(const struct ct_question *q, uint32_t number)
{
	return (int32_t)(atomic_load(&q->answered) - number) < 0;
}

void ct_await_answer(struct ct_question *q, uint32_t number)
{
	uint32_t seen = atomic_load(&q->answered);
	if (ct_unanswered(q, number))
		ct_word_wait(&q->answered, seen, SLICE);
}

uint32_t ct_asked(const struct ct_question *q)
{
	return atomic_load(&q->asked);
}

void ct_answer(struct ct_question *q, uint32_t number)
{
	atomic_store(&q->answered, number);
	ct_word_wake(&q->answered);
}

uint32_t ct_wake_count(void)
{
	return atomic_load(bell());
}

/* Waits until the bell has rung since it was counted, or until a time. */
void ct_wake_wait(uint32_t counted, uint64_t until)
{
	uint64_t now = ct_now();
	if (now < until)
		ct_shared_wait(bell(), counted, until - now < LOOK ? until - now : LOOK);
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

/* In a forked child: the threads and the memory are the parent's. */
void ct_threads_forked(void)
{
	if (!ct_running())
		return;
	own = NULL;
	recorder = NULL;
}
