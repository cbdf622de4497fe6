#ifndef CT_LINK_H
#define CT_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define CT_LINK_MEMORIES 2 /* descriptors that come with GO */

struct ct_shared *ct_link_start(const int passed[CT_LINK_MEMORIES]);
void ct_link_end(void);
void ct_link_forked(void);
bool ct_link_alive(void);

/* For the sender alone, and before its start. */
void ct_link_hold(void);
size_t ct_link_send(const void *data, size_t size);
void ct_link_await_room(uint64_t ns);

/* For the control thread alone, and before its start. */
enum ct_received { CT_NOTHING, CT_RECEIVED, CT_NONSENSE };
enum ct_received ct_link_receive(struct ct_frame *frame, void *payload, size_t most);
void ct_link_await_message(uint64_t deadline);

_Atomic uint32_t *ct_link_bell(void);

#endif
