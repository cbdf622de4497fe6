#ifndef CT_BASE_H
#define CT_BASE_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CT_MS 1000000ull
#define CT_SECOND 1000000000ull
#define CT_FOREVER UINT64_MAX

/* Times, in ns; safe in a signal handler. */
uint64_t ct_now(void);      /* CLOCK_MONOTONIC */
uint64_t ct_realtime(void); /* CLOCK_REALTIME */
int64_t ct_clock_shift(void); /* what a preloaded library adds to the program's CLOCK_MONOTONIC */

/* Memory: zeroed, 8-byte aligned; NULL without. */
void *ct_alloc(size_t size);
void ct_free(void *p, size_t size);
bool ct_has_room(size_t size); /* whether all that we have of a kind may come to so much */
void *ct_alloc_shared(size_t size);      /* with forked children */
void *ct_map_shared(int fd, size_t size); /* with the owner of a descriptor */
void ct_forget_shared(void *p, size_t size);
void ct_free_shared(void *p, size_t size);
void ct_free_all(void);

/* A variable that outlives its recording, in a copy of this library that makes another one (meet.c). */
#define CT_KEPT __attribute__((section("ct_kept")))

/*
 * Functions of ours that CUPTI, another client of it or the kernel may call at any time are counted, so that the variables
 * of a copy can be made new while nobody is in one. False: they are made new at this moment.
 */
bool ct_come_in(void);
void ct_go_out(void);
bool ct_shut(void); /* false when somebody has not come out in time */
void ct_open(void);

/* All zero is a lock that is free. */
struct ct_lock {
	_Atomic uint32_t state;
};
void ct_lock(struct ct_lock *l);
bool ct_lock_within(struct ct_lock *l, uint64_t ns);
void ct_unlock(struct ct_lock *l);

/* A condition of what a lock guards; both functions are called under that lock. A wait may end early. */
struct ct_condition {
	_Atomic uint32_t changes, waiters;
};
void ct_condition_wait(struct ct_condition *c, struct ct_lock *l, uint64_t ns);
void ct_condition_tell(struct ct_condition *c);

/* Waits while a word has a value, and wakes who waits; safe in a signal handler. The shared ones are in memory that another process maps, too. */
void ct_word_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t ns);
void ct_word_wake(_Atomic uint32_t *word);
void ct_shared_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t ns);
void ct_shared_wake(_Atomic uint32_t *word);
void ct_pause(uint64_t ns);

/* Blocks all signals for a while. */
void ct_sigmask_block(sigset_t *before);
void ct_sigmask_restore(const sigset_t *before);

/* A function of ours on a thread of the program's, between ct_come_in and ct_go_out: without signals, and errno stays. */
struct ct_visit {
	sigset_t before;
	int error;
	bool in;
};
bool ct_visit(struct ct_visit *v);
void ct_visit_end(const struct ct_visit *v); /* also where ct_visit was false */

/* Threads of ours: they take no signals, which belong to the program. */
bool ct_thread_start(pthread_t *t, void *(*run)(void *), size_t stack, const char *name); /* detached where t is NULL */
void ct_thread_join(pthread_t t);
uint32_t ct_tid(void);

/* Which process this is; safe in a signal handler. */
bool ct_fork_begin(void); /* this process is recorded from now on; false when it or its parent already was */
pid_t ct_self(void);      /* the recorded process */
bool ct_ours(void);       /* this process is the recorded one */
bool ct_here(void);       /* likewise, without a system call: for places that run in no child but fork's */
bool ct_forked(void);     /* this process is a forked child of the recorded one */
bool ct_fork_watch(void (*in_child)(void));

/* A step of a hash. */
static inline uint64_t ct_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ (h >> 29);
}

#endif
