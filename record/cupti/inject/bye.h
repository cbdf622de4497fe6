#ifndef CT_BYE_H
#define CT_BYE_H

#include <stdint.h>

#include "wire.h"

struct ct_bye ct_bye(uint32_t reason, uint32_t detail, uint64_t until);

#endif
