#ifndef CT_MEET_H
#define CT_MEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base.h"
#include "load.h"
#include "wire.h"

/* The socket. */
bool ct_rehearsed(void);
int ct_connect(uint64_t deadline);
bool ct_send_wait(int fd, const void *data, size_t size, uint64_t deadline);

/* The answer, GO. */
#define CT_GO_WAIT (CT_GO_WAIT_MS * CT_MS)

unsigned char *ct_go_receive(int fd, uint32_t *length, int *passed, unsigned count, uint64_t *deadline);
unsigned ct_go_candidates(unsigned char **at, uint32_t *left, uint32_t count, struct ct_candidate *list);
const char *ct_go_range(const unsigned char *payload, uint32_t length, uint32_t *range);

/* A process that waits for a recorder. */
bool ct_armed_start(bool (*meet)(void));

#endif
