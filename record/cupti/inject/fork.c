/*
 * Which process is recorded, and what is done in its forked children. Code that may run
 * in a child asks here first, in signal handlers too. Files that hold something which a
 * child must let go have a function called there; nothing else may be done in a child.
 */
#include "fork.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

#define WATCHERS 3

static _Atomic pid_t self;
static atomic_bool forked; /* known without a system call, after fork alone */
static _Atomic(void (*)(void)) watchers[WATCHERS];

/* This is the process to record, also as the child of one that has used NVTX alone. False: there was one before. */
bool ct_fork_begin(void)
{
	pid_t none = 0;
	if (!atomic_compare_exchange_strong(&self, &none, getpid()))
		return false;
	atomic_store(&forked, false);
	return true;
}

/* Whether this is the process with that ID. A sandbox may refuse to tell: the number is negative then. */
static bool is(pid_t pid)
{
	pid_t now = getpid();
	return now >= 0 ? now == pid : !atomic_load(&forked);
}

bool ct_ours(void)
{
	return is(atomic_load(&self));
}

/* As ct_ours, without a system call: for places that run in no child but fork's. */
bool ct_here(void)
{
	return !atomic_load_explicit(&forked, memory_order_relaxed);
}

/* The recorded process. */
pid_t ct_self(void)
{
	return atomic_load(&self);
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
	static atomic_bool registered;
	for (size_t i = 0; i < WATCHERS; i++) {
		void (*there)(void) = NULL;
		if (atomic_compare_exchange_strong(&watchers[i], &there, f) || there == f)
			break;
	}
	return atomic_exchange(&registered, true) || __register_atfork(NULL, NULL, in_child, NULL) == 0;
}
