/* Messages to the recorder. */
#ifndef GS_OUT_H
#define GS_OUT_H

#include <stdint.h>

#include "wire.h"

/* Sends a message of a type; its struct begins with a gs_head, which is filled in. The process ends when
 * the recorder is gone. */
void gs_send(void *message, uint32_t type, uint32_t size);

void gs_send_failed(uint32_t why, const char *text);

#endif
