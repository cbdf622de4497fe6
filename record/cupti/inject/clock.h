#ifndef CT_CLOCK_H
#define CT_CLOCK_H

#include <stdint.h>

#define CT_MS 1000000ull
#define CT_SECOND 1000000000ull

uint64_t ct_now(void);      /* CLOCK_MONOTONIC, ns */
uint64_t ct_realtime(void); /* CLOCK_REALTIME, ns */

#endif
