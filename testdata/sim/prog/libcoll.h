/* A library like NCCL, with functions that are none of CUDA's. */
#ifndef SIM_PROG_LIBCOLL_H
#define SIM_PROG_LIBCOLL_H

#include <stddef.h>

#include "counts.h"

int collInit(int ranks);
int collAllReduce(const void *from, void *to, size_t count); /* a launch */
int collFinish(struct counts *total);			      /* returns the number of errors */

#endif
