/*
 * The faults of reads by guard.h. signals.c comes here first with a signal that the thread's own instruction made.
 * A table, which the compiler's assembler collects, has the address of each such read, and where the thread goes on.
 */
#include "guard.h"

#include <string.h>
#include <ucontext.h>

#ifdef __x86_64__
#define PROGRAM_COUNTER uc_mcontext.gregs[REG_RIP]
#else
#define PROGRAM_COUNTER uc_mcontext.pc
#endif

struct guard {
	int32_t read, after; /* as distances from these fields */
};

extern const struct guard __start_ct_guards[] __attribute__((visibility("hidden")));
extern const struct guard __stop_ct_guards[] __attribute__((visibility("hidden")));

/* Has the thread go on behind a read that faulted; false when the fault is another one's. */
bool ct_guard_leave(void *context)
{
	ucontext_t *u = context;
	uintptr_t pc = (uintptr_t)u->PROGRAM_COUNTER;
	for (const struct guard *g = __start_ct_guards; g < __stop_ct_guards; g++) {
		if ((uintptr_t)&g->read + (uintptr_t)(intptr_t)g->read != pc)
			continue;
		uintptr_t after = (uintptr_t)&g->after + (uintptr_t)(intptr_t)g->after;
		memcpy(&u->PROGRAM_COUNTER, &after, sizeof after);
		return true;
	}
	return false;
}
