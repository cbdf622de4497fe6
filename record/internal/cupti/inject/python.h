#ifndef CT_PYTHON_H
#define CT_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack.h"
#include "wire.h"

#define CT_PYTHON_DEPTH 128u  /* frames of a stack; those further out are left out */
#define CT_PYTHON_PAGES 64u   /* a power of two, as the next */
#define CT_PYTHON_PLACES 256u
#define CT_PYTHON_NONE 0u     /* there is no Python frame */
#define CT_PYTHON_LOST UINT32_MAX /* there is one, but no number for the stack */

/* A frame, as it was looked at. */
struct ct_python_frame {
	uint64_t at, code, instruction; /* pointers; before 3.11 the last is a number */
	uint32_t version;               /* of the code; UINT32_MAX: it has none */
	uint32_t pad;
};

/* What is kept of a thread for its Python frames: those of its last walk, which the next one finds again, mostly. */
struct ct_python_thread {
	uint32_t count, number;
	uint32_t left_out; /* CT_LEFT_OUT_DEEP: frames[0].at is the innermost of these frames, else it is 0 */
	/* 1 to count, outermost first. In the walk that is going on, new ones are at the end. */
	struct ct_python_frame frames[CT_PYTHON_DEPTH + 1];
	struct {
		uint64_t key, hash; /* of the frame, and of it with those further out */
	} numbers[CT_PYTHON_DEPTH + 1];
	uint8_t places[CT_PYTHON_PLACES]; /* where in frames one may be, by its address */
	uintptr_t pages[CT_PYTHON_PAGES]; /* had frames outside of the data stack, and could be read */
};

bool ct_python_start(size_t memory);
bool ct_python_use(const struct ct_python *p);
void ct_python_end(const char *why);
void ct_python_poll(void);

/* For every thread, inside CUDA calls. */
bool ct_python_on(void);
uint32_t ct_python_number(struct ct_python_thread *t, const struct ct_home *home, uintptr_t inner);

/* For one thread at a time. */
bool ct_python_send(uint32_t number);

#endif
