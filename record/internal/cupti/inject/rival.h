#ifndef CT_RIVAL_H
#define CT_RIVAL_H

#include <stdbool.h>

#include "cupti_abi.h"

/* A client that is about to register. */
void ct_rival_end(void);
void ct_rival_start(const struct ct_cupti *api);
void ct_rival_poll(void);
bool ct_rival_waits(void);
void ct_rival_answer(void);

/* A client that has registered. */
bool ct_rival_before(const struct ct_cupti *api);
bool ct_rival_client(const struct ct_cupti *api);
bool ct_rival_client_now(const struct ct_cupti *api);
void ct_rival_leave(void);

#endif
