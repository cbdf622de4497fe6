#ifndef CT_RIVAL_CLIENT_H
#define CT_RIVAL_CLIENT_H

#include <stdbool.h>

#include "cupti_abi.h"

bool ct_rival_before(const struct ct_cupti *api);
bool ct_rival_client(const struct ct_cupti *api);
bool ct_rival_client_now(const struct ct_cupti *api);
void ct_rival_leave(void);

#endif
