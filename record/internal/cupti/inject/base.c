/*
 * What all files stand on: clocks, memory, locks and waits, threads of ours, and which process this is. The
 * library runs inside CUDA calls, in handlers of signals and in forked children of a program, so nothing here
 * touches the program's allocator or any lock of its own, and waits are made of the futex system call alone.
 */
#include "base.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * The kernel's clocks, by its vDSO: a library that is preloaded may have replaced clock_gettime to shift the program's
 * time, while the recorder goes by the real one. NULL before a recording and without a vDSO: a system call then.
 */
typedef int clock_fn(clockid_t, struct timespec *);
static CT_KEPT _Atomic(clock_fn *) kernel_clock;

static void find_clock(void)
{
#ifdef __x86_64__
	static const char name[] = "__vdso_clock_gettime";
#else
	static const char name[] = "__kernel_clock_gettime";
#endif
	void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	void *f = vdso ? dlsym(vdso, name) : NULL;
	clock_fn *found = NULL;
	memcpy(&found, &f, sizeof found);
	atomic_store(&kernel_clock, found);
}

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;
	clock_fn *f = atomic_load_explicit(&kernel_clock, memory_order_relaxed);
	if (f ? f(id, &t) != 0 : syscall(SYS_clock_gettime, id, &t) != 0)
		return 0;
	return (uint64_t)t.tv_sec * CT_SECOND + (uint64_t)t.tv_nsec;
}

uint64_t ct_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

/* By how much the program's CLOCK_MONOTONIC is ahead of the kernel's, ns. */
int64_t ct_clock_shift(void)
{
	struct timespec t;
	uint64_t now = ct_now();
	if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
		return 0;
	return (int64_t)((uint64_t)t.tv_sec * CT_SECOND + (uint64_t)t.tv_nsec - now);
}

uint64_t ct_realtime(void)
{
	return read_clock(CLOCK_REALTIME);
}

/* What is mapped, as far as there is room in the list, for ct_free_all. */
#define MAPPED 512

static struct {
	_Atomic(void *) at;
	size_t size;
} mapped[MAPPED];

/* The first entry with one address, which becomes another; MAPPED without. */
static size_t exchange_mapped(void *is, void *to)
{
	size_t i = 0;
	for (void *at = is; i < MAPPED && !atomic_compare_exchange_strong(&mapped[i].at, &at, to); i++, at = is)
		;
	return i;
}

static void *map(int fd, int flags, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	size_t i = exchange_mapped(NULL, p);
	if (i < MAPPED)
		mapped[i].size = size;
	return p;
}

static void unmap(void *p, size_t size)
{
	exchange_mapped(p, NULL);
	munmap(p, size);
}

/* Gives back all memory of this library's. Nobody may be on the way to it. */
void ct_free_all(void)
{
	for (size_t i = 0; i < MAPPED; i++)
		if (atomic_load(&mapped[i].at))
			munmap(atomic_load(&mapped[i].at), mapped[i].size);
}

/* Builds with a sanitizer use the program's allocator all the same, so that the sanitizer sees accesses beyond an end. */
#ifdef CT_CHECKED
void *ct_alloc(size_t size)
{
	return calloc(1, size);
}

void ct_free(void *p, size_t size)
{
	(void)size;
	free(p);
}
#else
void *ct_alloc(size_t size)
{
	return map(-1, MAP_PRIVATE | MAP_ANONYMOUS, size);
}

void ct_free(void *p, size_t size)
{
	if (p)
		unmap(p, size);
}
#endif

/*
 * What we take of the address space is at most a part of what is left to the program, whose own allocations must not
 * fail because of us (RLIMIT_AS). It is looked at by mapping as much for a moment; no page of it is touched.
 */
#define PART 4

bool ct_has_room(size_t size)
{
	if (size > SIZE_MAX / PART)
		return false;
	void *p = mmap(NULL, size * PART, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return false;
	munmap(p, size * PART);
	return true;
}

void *ct_alloc_shared(size_t size)
{
	return map(-1, MAP_SHARED | MAP_ANONYMOUS, size);
}

void *ct_map_shared(int fd, size_t size)
{
	return map(fd, MAP_SHARED, size);
}

void ct_free_shared(void *p, size_t size)
{
	unmap(p, size);
}

/* Gives the memory back, but leaves zeros of our own in its place: a thread may still be on its way there. */
void ct_forget_shared(void *p, size_t size)
{
	mmap(p, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/*
 * Waits. glibc's locks are not used, because glibc ends the program where a sandbox refuses futex: waits become
 * short sleeps then.
 */
#define LONGEST CT_SECOND /* of a wait, since a sandbox may refuse to wake who waits already */
#define NAP CT_MS         /* of a wait, where futex is refused */

static atomic_bool refused;

/* Sleeps by whichever system call is allowed. */
static void nap(void)
{
	static const struct timespec t = {.tv_nsec = NAP};
	if (syscall(SYS_nanosleep, &t, NULL) != 0 && errno != EINTR && poll(NULL, 0, 1) != 0 && errno != EINTR)
		sched_yield();
}

static void wait_for(_Atomic uint32_t *word, int operation, uint32_t seen, uint64_t ns)
{
	struct timespec t = {.tv_sec = ns < LONGEST ? 0 : LONGEST / CT_SECOND, .tv_nsec = ns < LONGEST ? (long)ns : 0};
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

#define OUT_WAIT (100 * CT_MS) /* a thread that does not run for longer costs the memory of one more copy */

static CT_KEPT _Atomic uint32_t inside;
static CT_KEPT atomic_bool shut;

bool ct_come_in(void)
{
	atomic_fetch_add(&inside, 1);
	if (!atomic_load(&shut))
		return true;
	atomic_fetch_sub(&inside, 1);
	return false;
}

/* Nothing of this library's variables may be touched behind it. */
void ct_go_out(void)
{
	atomic_fetch_sub(&inside, 1);
}

bool ct_shut(void)
{
	uint64_t deadline = ct_now() + OUT_WAIT;
	atomic_store(&shut, true);
	while (atomic_load(&inside) != 0 && ct_now() < deadline)
		ct_pause(CT_MS);
	bool empty = atomic_load(&inside) == 0;
	if (!empty)
		ct_open();
	return empty;
}

void ct_open(void)
{
	atomic_store(&shut, false);
}

enum { FREE, TAKEN, WANTED };

/* False when the lock was not to be had for so long. */
bool ct_lock_within(struct ct_lock *l, uint64_t ns)
{
	uint32_t free = FREE;
	if (atomic_compare_exchange_strong(&l->state, &free, TAKEN))
		return true;
	uint64_t now = ct_now(), deadline = now + ns < now ? CT_FOREVER : now + ns;
	while (atomic_exchange(&l->state, WANTED) != FREE) {
		if ((now = ct_now()) >= deadline)
			return false;
		ct_word_wait(&l->state, WANTED, deadline - now);
	}
	return true;
}

void ct_lock(struct ct_lock *l)
{
	ct_lock_within(l, CT_FOREVER);
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

/*
 * Threads of the program block all signals while they hold locks of ours: were one interrupted there, its own
 * handover would wait for it.
 */
#define UNBLOCKED SIGKILL /* no thread blocks it: in a mask, it says that nothing was blocked */

void ct_sigmask_block(sigset_t *before)
{
	sigset_t all;
	sigfillset(&all);
	sigemptyset(before);
	if (pthread_sigmask(SIG_SETMASK, &all, before) != 0)
		sigaddset(before, UNBLOCKED);
}

void ct_sigmask_restore(const sigset_t *before)
{
	if (!sigismember(before, UNBLOCKED))
		pthread_sigmask(SIG_SETMASK, before, NULL);
}

bool ct_visit(struct ct_visit *v)
{
	v->error = errno;
	ct_sigmask_block(&v->before);
	return v->in = ct_come_in();
}

void ct_visit_end(const struct ct_visit *v)
{
	if (v->in)
		ct_go_out();
	ct_sigmask_restore(&v->before);
	errno = v->error;
}

struct beginning {
	void *(*run)(void *);
	const char *name;
	_Atomic uint32_t named;
};

/*
 * A thread names itself. To name another thread, glibc opens a file below /proc. The kernel has to forget that file when
 * the thread ends, and until it has, the process that waits for the killed program spins on a processor.
 */
static void *begin(void *arg)
{
	struct beginning *b = arg;
	void *(*run)(void *) = b->run;
	pthread_setname_np(pthread_self(), b->name);
	atomic_store(&b->named, 1); /* b may be gone now: its address alone is used */
	ct_word_wake(&b->named);
	return run(NULL);
}

static bool create(pthread_t *t, struct beginning *b, size_t stack)
{
	pthread_attr_t attr;
	if (pthread_attr_init(&attr) != 0)
		return false;
	pthread_attr_setstacksize(&attr, stack);
	int r = pthread_create(t, &attr, begin, b);
	if (r != 0) /* a program with much thread-local data needs the usual stack */
		r = pthread_create(t, NULL, begin, b);
	pthread_attr_destroy(&attr);
	return r == 0;
}

/* It returns when the thread has its name: the program may enter a sandbox then that kills for giving it. */
bool ct_thread_start(pthread_t *t, void *(*run)(void *), size_t stack, const char *name)
{
	struct beginning b = {.run = run, .name = name};
	sigset_t before;
	pthread_t own;
	ct_sigmask_block(&before);
	bool started = create(&own, &b, stack);
	ct_sigmask_restore(&before);
	while (started && !atomic_load(&b.named))
		ct_word_wait(&b.named, 0, CT_FOREVER);
	if (started && t)
		*t = own;
	else if (started)
		pthread_detach(own);
	return started;
}

/* glibc ends the program where it cannot wait: the thread has ended then, or is about to. */
void ct_thread_join(pthread_t t)
{
	if (!atomic_load(&refused))
		pthread_join(t, NULL);
}

uint32_t ct_tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

/*
 * Which process is recorded, and what is done in its forked children. Files that hold something which a child must
 * let go have a function called there; nothing else may be done in a child.
 */
#define WATCHERS 3

static CT_KEPT _Atomic pid_t self;
static CT_KEPT atomic_bool forked; /* known without a system call, after fork alone */
static CT_KEPT _Atomic(void (*)(void)) watchers[WATCHERS];

/* This is the process to record, also as the child of one that has used NVTX alone. False: there was one before. */
bool ct_fork_begin(void)
{
	pid_t none = 0;
	if (!atomic_compare_exchange_strong(&self, &none, getpid()))
		return false;
	atomic_store(&forked, false);
	find_clock();
	return true;
}

/* Whether this is the process with that ID. A sandbox may refuse to tell: the number is negative then. */
static bool is(pid_t pid)
{
	pid_t now = getpid();
	return now >= 0 ? now == pid : !atomic_load(&forked);
}

pid_t ct_self(void)
{
	return atomic_load(&self);
}

bool ct_ours(void)
{
	return is(atomic_load(&self));
}

bool ct_here(void)
{
	return !atomic_load_explicit(&forked, memory_order_relaxed);
}

bool ct_forked(void)
{
	pid_t recorded = atomic_load(&self);
	return recorded != 0 && !is(recorded);
}

static void in_child(void)
{
	atomic_store(&forked, true);
	for (size_t i = 0; i < WATCHERS; i++) {
		void (*f)(void) = atomic_load(&watchers[i]);
		if (f)
			f();
	}
}

/*
 * glibc's own name behind pthread_atfork, which is linked into each library
 * statically. No library handle is given: this library is never unloaded.
 */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);

/*
 * Has a function called in each forked child. To be called before a lock of ours is
 * taken that a child may need; again with the same function, it changes nothing.
 */
bool ct_fork_watch(void (*f)(void))
{
	static CT_KEPT atomic_bool registered;
	for (size_t i = 0; i < WATCHERS; i++) {
		void (*there)(void) = NULL;
		if (atomic_compare_exchange_strong(&watchers[i], &there, f) || there == f)
			break;
	}
	return atomic_exchange(&registered, true) || __register_atfork(NULL, NULL, in_child, NULL) == 0;
}
