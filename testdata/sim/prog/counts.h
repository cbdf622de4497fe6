/* The amount of GPU work that a program issued. There must be as many records. */
#ifndef SIM_PROG_COUNTS_H
#define SIM_PROG_COUNTS_H

#include <stdio.h>

struct counts {
	long kernels, copies, sets;
};

static inline struct counts counts_add(struct counts a, struct counts b)
{
	return (struct counts){a.kernels + b.kernels, a.copies + b.copies, a.sets + b.sets};
}

static inline void counts_print(const char *head, struct counts c)
{
	printf("%s kernels=%ld copies=%ld sets=%ld\n", head, c.kernels, c.copies, c.sets);
	fflush(stdout);
}

#endif
