#ifndef CT_CLIENT_H
#define CT_CLIENT_H

#include <stdbool.h>

#include "cupti_abi.h"

/* A client that is about to register. */
void ct_client_end(void);
void ct_client_start(const struct ct_cupti *api);
void ct_client_poll(void);
bool ct_client_waits(void);
void ct_client_answer(void);

/* A client that has registered. */
bool ct_client_before(const struct ct_cupti *api);
bool ct_client_present(const struct ct_cupti *api);
bool ct_client_present_now(const struct ct_cupti *api);
void ct_client_leave(void);

#endif
