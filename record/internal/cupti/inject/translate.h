#ifndef CT_TRANSLATE_H
#define CT_TRANSLATE_H

#include <stddef.h>
#include <stdint.h>

#include "cupti_abi.h"

void ct_complete_start(const struct ct_cupti *api);
void ct_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

#endif
