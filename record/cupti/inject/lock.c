/*
 * Locks and waits, on the futex system call alone. All files wait here. glibc's locks are not
 * used, because glibc ends the program where a sandbox refuses futex: waits become short
 * sleeps then. A wait may end early, so its caller looks again.
 */
#include "lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FREE, TAKEN, WANTED };

#define SECOND 1000000000u
#define LONGEST SECOND /* ns: of a wait, since a sandbox may refuse to wake who waits already */
#define NAP 1000000u /* ns: of a wait, where futex is refused */

static atomic_bool refused;

bool ct_futex_refused(void)
{
	return atomic_load(&refused);
}

/* Sleeps by whichever system call is allowed. */
static void nap(void)
{
	static const struct timespec t = {.tv_nsec = NAP};
	if (syscall(SYS_nanosleep, &t, NULL) != 0 && errno != EINTR && poll(NULL, 0, 1) != 0 && errno != EINTR)
		sched_yield();
}

static void wait_for(_Atomic uint32_t *word, int operation, uint32_t seen, uint64_t ns)
{
	struct timespec t = {.tv_sec = ns < LONGEST ? 0 : LONGEST / SECOND, .tv_nsec = ns < LONGEST ? (long)ns : 0};
	int kept = errno;
	if (syscall(SYS_futex, word, operation, seen, &t, NULL, 0) != 0 && errno != EAGAIN &&
	    errno != EINTR && errno != ETIMEDOUT) {
		atomic_store(&refused, true);
		if (ns > 0 && atomic_load(word) == seen)
			nap();
	}
	errno = kept;
}

static void wake(_Atomic uint32_t *word, int operation)
{
	int kept = errno;
	syscall(SYS_futex, word, operation, INT32_MAX, NULL, NULL, 0);
	errno = kept;
}

/* Waits while the word has a value. */
void ct_word_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
	wait_for(word, FUTEX_WAIT_PRIVATE, seen, ns);
}

void ct_word_wake(_Atomic uint32_t *word)
{
	wake(word, FUTEX_WAKE_PRIVATE);
}

void ct_shared_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
	wait_for(word, FUTEX_WAIT, seen, ns);
}

void ct_shared_wake(_Atomic uint32_t *word)
{
	wake(word, FUTEX_WAKE);
}

void ct_pause(uint64_t ns)
{
	_Atomic uint32_t word = 0;
	ct_word_wait(&word, 0, ns);
}

void ct_lock(struct ct_lock *l)
{
	uint32_t free = FREE;
	if (atomic_compare_exchange_strong(&l->state, &free, TAKEN))
		return;
	while (atomic_exchange(&l->state, WANTED) != FREE)
		ct_word_wait(&l->state, WANTED, CT_FOREVER);
}

void ct_unlock(struct ct_lock *l)
{
	if (atomic_exchange(&l->state, FREE) == WANTED)
		ct_word_wake(&l->state);
}

void ct_condition_wait(struct ct_condition *c, struct ct_lock *l, uint64_t ns)
{
	uint32_t seen = atomic_load(&c->changes);
	atomic_fetch_add(&c->waiters, 1);
	ct_unlock(l);
	ct_word_wait(&c->changes, seen, ns);
	ct_lock(l);
	atomic_fetch_sub(&c->waiters, 1);
}

void ct_condition_tell(struct ct_condition *c)
{
	atomic_fetch_add(&c->changes, 1);
	if (atomic_load(&c->waiters) > 0)
		ct_word_wake(&c->changes);
}
