#ifndef CT_RIVAL_HOOK_H
#define CT_RIVAL_HOOK_H

#include <stdbool.h>

#include "cupti_abi.h"

void ct_rival_hook_start(const struct ct_cupti *api);
void ct_rival_hook_poll(void);

bool ct_rival_waits(void);
void ct_rival_answer(void);

#endif
