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

bool ct_readable(uintptr_t address);
void ct_home_find(struct ct_home *h);
void ct_view_begin(struct ct_view *v, struct ct_home *h, uintptr_t frame);
bool ct_view_reaches(struct ct_view *v, uintptr_t end);

#ifdef CT_CHECKED /* other functions' frames are read on purpose */
uintptr_t ct_stack_word(uintptr_t at);
#else
static inline uintptr_t ct_stack_word(uintptr_t at)
{
	return *(const volatile uintptr_t *)at;
}
#endif

/* A signed return address (arm64) without its signature. */
static inline uintptr_t ct_stack_plain(uintptr_t address)
{
#ifdef __aarch64__
	register uintptr_t x30 __asm__("x30") = address;
	__asm__("hint #7" : "+r"(x30)); /* XPACLRI; nothing on processors without signatures */
	return x30;
#else
	return address;
#endif
}

/*
 * Reads a frame record: the frame pointer of the caller's frame, and the return address. False when
 * there cannot be a record at that address. Frames must rise.
 */
static inline bool ct_view_frame(struct ct_view *v, uintptr_t frame, uintptr_t *above, uintptr_t *address)
{
	const uintptr_t size = 2 * sizeof(uintptr_t);
	if (frame < v->from || frame % sizeof(uintptr_t) != 0 || frame > UINTPTR_MAX - size)
		return false;
	if (frame + size > v->to && !ct_view_reaches(v, frame + size))
		return false;
	*above = ct_stack_word(frame);
	*address = ct_stack_plain(ct_stack_word(frame + sizeof(uintptr_t)));
	v->from = frame + size;
	return true;
}

#endif
