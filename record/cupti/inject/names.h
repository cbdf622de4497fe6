#ifndef CT_NAMES_H
#define CT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool ct_names_start(size_t memory);
uint32_t ct_name_number(const char *text);

#endif
