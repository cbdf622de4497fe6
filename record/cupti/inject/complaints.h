#ifndef CT_COMPLAINTS_H
#define CT_COMPLAINTS_H

#include "cupti_abi.h"

void ct_complain(const char *what, const char *more);
void ct_complain_of(const struct ct_cupti *api, const char *what, const char *which, ct_result r);
void ct_complaints_clear(void);
const char *ct_complaints(void);

#endif
