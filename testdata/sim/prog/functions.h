/* The two halves of the program functions: the runtime's, and the driver's. */
#ifndef SIM_PROG_FUNCTIONS_H
#define SIM_PROG_FUNCTIONS_H

#include <stdbool.h>

#include "../include/image.h"
#include "counts.h"

extern struct counts functions_issued;
int functions_expect(bool right, const char *what); /* returns the number of errors */
#define EXPECT(right) functions_expect((right), #right)

int functions_driver(const struct sim_image *image, const char *self);
int functions_open(const char *handle); /* the other process, for memory shared between two */

#endif
