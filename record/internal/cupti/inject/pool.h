#ifndef CT_POOL_H
#define CT_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meet.h"

bool ct_pool_start(size_t memory, size_t buffer_size, bool null_allowed);
void ct_pool_request(uint8_t **buffer, size_t *size, size_t *max_records);
bool ct_pool_scratch(const uint8_t *buffer);
void ct_pool_release(uint8_t *buffer);
void ct_pool_after(const struct ct_pool_before *before);
void ct_pool_end(void);
void ct_pool_forget(void);
void ct_pool_leave(void);
uint64_t ct_pool_requests(void);

#endif
