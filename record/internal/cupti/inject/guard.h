#ifndef CT_GUARD_H
#define CT_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Reads of memory that should be there. A read that faults gives 0 and sets *bad: guard.c has the thread go on
 * behind it, from the handler of the signal. A read that does not fault costs what a plain one does.
 */
#ifdef __x86_64__
#define CT_FAULTED "movl $1, %1\n\txorl %k0, %k0\n\tjmp 2b"
#define CT_LOAD8 "movq %2, %q0"
#define CT_LOAD4 "movl %2, %k0"
#define CT_LOAD1 "movzbl %2, %k0"
#else
#define CT_FAULTED "mov %w1, #1\n\tmov %x0, #0\n\tb 2b"
#define CT_LOAD8 "ldr %x0, %2"
#define CT_LOAD4 "ldr %w0, %2"
#define CT_LOAD1 "ldrb %w0, %2"
#endif
#define CT_GUARDED(load, at, value, bad)                                                                      \
	__asm__ volatile("1:\t" load "\n2:\n"                                                                \
			 "\t.subsection 1\n3:\t" CT_FAULTED "\n\t.previous\n"                               \
			 "\t.pushsection ct_guards, \"a\"\n\t.balign 4\n\t.long 1b - ., 3b - .\n\t.popsection" \
			 : "=r"(value), "+&r"(bad)                                                            \
			 : "m"(*(const volatile uint64_t *)(at)))

static inline uint64_t ct_guarded8(uintptr_t at, uint32_t *bad)
{
	uint64_t value;
	uint32_t failed = *bad;
	CT_GUARDED(CT_LOAD8, at, value, failed);
	*bad = failed;
	return value;
}

static inline uint32_t ct_guarded4(uintptr_t at, uint32_t *bad)
{
	uint64_t value;
	uint32_t failed = *bad;
	CT_GUARDED(CT_LOAD4, at, value, failed);
	*bad = failed;
	return (uint32_t)value;
}

static inline uint8_t ct_guarded1(uintptr_t at, uint32_t *bad)
{
	uint64_t value;
	uint32_t failed = *bad;
	CT_GUARDED(CT_LOAD1, at, value, failed);
	*bad = failed;
	return (uint8_t)value;
}

bool ct_guard_leave(void *context);

#endif
