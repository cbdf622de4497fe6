#ifndef CT_REHEARSAL_H
#define CT_REHEARSAL_H

#include <stdbool.h>

bool ct_rehearsed(void);

#endif
