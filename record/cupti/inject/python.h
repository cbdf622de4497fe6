#ifndef CT_PYTHON_H
#define CT_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack.h"
#include "wire.h"

#define CT_PYTHON_DEPTH 128u  /* frames of a stack; those further out are left out */
#define CT_PYTHON_PAGES 16u   /* a power of two */
#define CT_PYTHON_NONE 0u     /* there is no Python frame */
#define CT_PYTHON_LOST UINT32_MAX /* there is one, but no number for the stack */

/* What is kept of a thread for its Python frames. */
struct ct_python_thread {
	uint64_t frames[CT_PYTHON_DEPTH + 1]; /* of the walk that is going on, innermost first */
	uintptr_t pages[CT_PYTHON_PAGES];     /* had frames outside of the data stack, and could be read */
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
