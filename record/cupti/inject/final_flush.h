#ifndef CT_FINAL_FLUSH_H
#define CT_FINAL_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

uint64_t ct_final_flush(bool at_exit, bool final);
void ct_flush_calls(void);

#endif
