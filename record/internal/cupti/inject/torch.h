#ifndef CT_TORCH_H
#define CT_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define CT_TORCH_NONE 0u          /* no operator is known */
#define CT_TORCH_LOST UINT32_MAX  /* there is one, but no number for the stack */

void ct_torch_start(size_t memory);
void ct_torch_use(const struct ct_torch *t);
void ct_torch_work(bool is);
void ct_torch_end(void);
bool ct_torch_forget(void);

/* For every thread, inside CUDA calls. */
uint32_t ct_torch_number(uint32_t *python);

/* For one thread at a time. */
bool ct_torch_send(uint32_t number);
void ct_torch_send_spans(bool all);

#endif
