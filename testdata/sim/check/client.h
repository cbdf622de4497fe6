#ifndef SIM_CHECK_CLIENT_H
#define SIM_CHECK_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../include/cupti_sim.h"

void fail(const char *what, unsigned long long detail);

/* events.c: records that are neither GPU work nor calls. */
void events_keep(const uint32_t *record);
void events_check(bool (*has_call)(uint32_t correlation), const size_t *counts); /* and prints the counts */

#endif
