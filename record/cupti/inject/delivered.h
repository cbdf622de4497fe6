#ifndef CT_DELIVERED_H
#define CT_DELIVERED_H

#include <stdbool.h>
#include <stdint.h>

/* Buffers. */
void ct_delivered_start(void);
void ct_delivered_buffer(void);
uint64_t ct_delivered_buffers(void);
uint64_t ct_delivered_last(void);
uint64_t ct_delivered_again(uint64_t now);

/* What a buffer holds, by correlation IDs. */
struct ct_delivery {
	uint32_t newest_call, newest_success; /* largest ID: of a call that makes work, of one that has not failed */
	uint32_t newest_work;                 /* of work */
	uint32_t awaited;                     /* pieces of work that were awaited */
};
void ct_delivered_add(const struct ct_delivery *d);
void ct_delivered_await(void);
uint32_t ct_delivered_target(void);
uint64_t ct_delivered_awaited(void);
bool ct_delivered_lacks_target(void);
bool ct_delivered_lacks_calls(void);

#endif
