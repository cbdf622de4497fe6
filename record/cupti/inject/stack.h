#ifndef CT_STACK_H
#define CT_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* The part of a thread's own stack that is known to be readable as long as the thread lives. */
struct ct_home {
	uintptr_t low, high; /* low is the beginning of a page */
	uintptr_t floor;     /* this page and those below are not looked at again */
};

/* What may be read of the stack that a thread is on. */
struct ct_view {
	uintptr_t from, to;
	unsigned more; /* pages that may be looked at, to go on above to */
};

void ct_home_find(struct ct_home *h);
void ct_view_begin(struct ct_view *v, struct ct_home *h, uintptr_t frame);
bool ct_view_frame(struct ct_view *v, uintptr_t frame, uintptr_t *above, uintptr_t *address);

#endif
