#ifndef CT_MEMORY_H
#define CT_MEMORY_H

#include <stdbool.h>

#include "cupti_abi.h"
#include "wire.h"

bool ct_memory_keep(const struct ct_function *list, unsigned count);
void ct_memory_start(const struct ct_cupti *api);
void ct_memory_refuse(void);
void ct_memory_leave(bool for_good);
void ct_memory_return(void);
void ct_memory_poll(const struct ct_cupti *api);
void ct_memory_end(void);
void ct_memory_exit(void);

#endif
