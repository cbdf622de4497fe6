#ifndef CT_QUEUE_H
#define CT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* A message, or part of a BATCH on its way: frame and data are sent in one piece. */
#define CT_CHUNK_SIZE (64u << 10)
struct ct_chunk {
	struct ct_chunk *next;
	uint32_t used;    /* bytes of data */
	uint32_t counted; /* 1 when it counts against the queue's limit */
	struct ct_frame frame;
	unsigned char data[];
};
#define CT_CHUNK_DATA (CT_CHUNK_SIZE - sizeof(struct ct_chunk))
_Static_assert(offsetof(struct ct_chunk, data) == offsetof(struct ct_chunk, frame) + sizeof(struct ct_frame),
	       "frame and data are sent in one piece");

/* What was lost of one cause, and the time within which it was. */
struct ct_loss {
	uint64_t count, from, to;
};

/* Records that CUPTI delivered, as a BYE counts them. */
struct ct_counts {
	uint64_t kernels, memcpys, memsets, apis;
};

bool ct_queue_start(size_t memory);

/* For every thread. */
struct ct_chunk *ct_queue_chunk(void);
struct ct_chunk *ct_queue_half_chunk(enum ct_lost_cause cause, uint64_t time);
void ct_queue_push(struct ct_chunk *c);
void ct_queue_message(uint16_t type, const void *head, size_t head_size, const char *text, size_t text_size);
void ct_queue_note(uint32_t severity, const char *text);
bool ct_queue_definition(const void *record, size_t size, const char *text, size_t length);
void ct_queue_record(const void *record, size_t size, const char *text, size_t length, uint64_t *time);
void ct_queue_flushed(uint64_t until);
void ct_queue_clock(const struct ct_clock *clock);
void ct_queue_lost(enum ct_lost_cause cause, const struct ct_loss *add);
void ct_queue_count(const struct ct_counts *add);
bool ct_queue_wait_sent(uint64_t deadline, uint64_t stall);
void ct_loss_add(struct ct_loss *to, const struct ct_loss *add);
struct ct_bye ct_bye(uint32_t reason, uint32_t detail, uint64_t until);

/* The sender thread. */
void ct_sender_run(void);
void ct_sender_until(uint64_t time);
void ct_sender_finish(uint32_t reason);

#endif
