/*
 * The link to the recorder: two rings of bytes in the memory that is shared with it. wire.h has
 * their layout. main.c maps the memory, the sender writes to one ring, the control thread reads the other. A
 * sandbox may kill for any system call but futex, which CUDA needs: no other is made here after the start.
 */
#include "link.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "lock.h"
#include "mem.h"

static struct ct_shared *own;         /* of this process */
static struct ct_recorder *recorder;  /* of all processes */

_Static_assert(sizeof(pthread_mutex_t) <= sizeof own->sender, "the sender's mutex");

/*
 * Maps the memory of this process and that of the recorder, and closes their descriptors. NULL if
 * either is missing.
 */
struct ct_shared *ct_link_start(const int passed[CT_LINK_MEMORIES])
{
	if (passed[0] >= 0)
		own = ct_map_shared(passed[0], sizeof *own);
	if (passed[1] >= 0)
		recorder = ct_map_shared(passed[1], sizeof *recorder);
	for (int i = 0; i < CT_LINK_MEMORIES; i++)
		if (passed[i] >= 0)
			close(passed[i]);
	return own && recorder ? own : NULL;
}

/* In a forked child: the memory is the parent's. */
void ct_link_forked(void)
{
	own = NULL;
	recorder = NULL;
}

/* Whether the recorder listens. The kernel marks the word of a recorder that has died. */
bool ct_link_alive(void)
{
	return atomic_load(&own->left) == 0 && (atomic_load(&recorder->life) & CT_DIED) == 0;
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

/* The futex that the recorder rings; NULL without such memory. */
_Atomic uint32_t *ct_link_bell(void)
{
	return own ? &own->bell : NULL;
}
