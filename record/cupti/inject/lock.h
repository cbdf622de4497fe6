#ifndef CT_LOCK_H
#define CT_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CT_FOREVER UINT64_MAX

/* All zero is a lock that is free. */
struct ct_lock {
	_Atomic uint32_t state; /* FREE, TAKEN or WANTED */
};
void ct_lock(struct ct_lock *l);
void ct_unlock(struct ct_lock *l);

/* A condition of what a lock guards; both functions are called under that lock. */
struct ct_condition {
	_Atomic uint32_t changes, waiters;
};
void ct_condition_wait(struct ct_condition *c, struct ct_lock *l, uint64_t ns);
void ct_condition_tell(struct ct_condition *c);

/* Words; safe in a signal handler. The shared ones are in memory that another process maps, too. */
void ct_word_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t ns);
void ct_word_wake(_Atomic uint32_t *word);
void ct_shared_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t ns);
void ct_shared_wake(_Atomic uint32_t *word);

void ct_pause(uint64_t ns);
bool ct_futex_refused(void);

#endif
