#ifndef CT_ARMED_H
#define CT_ARMED_H

#include <stdbool.h>

bool ct_armed_start(bool (*meet)(void));

#endif
