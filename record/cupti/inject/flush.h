#ifndef CT_FLUSH_H
#define CT_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

#define CT_FINISHED 0u   /* work that has ended is delivered */
#define CT_UNFINISHED 1u /* and, for good, work that still runs or has not begun */

bool ct_flush(uint32_t forced, bool at_exit);
void ct_flush_begin(void);
void ct_flush_now(uint32_t forced);
bool ct_flush_forced(void);
bool ct_flush_stuck(uint64_t time);

#endif
