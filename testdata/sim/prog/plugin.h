/* A library that uses the runtime, as a Python extension does. */
#ifndef SIM_PROG_PLUGIN_H
#define SIM_PROG_PLUGIN_H

#include "counts.h"

int plugin_work(struct counts *total, long launches); /* returns the number of errors */

#endif
