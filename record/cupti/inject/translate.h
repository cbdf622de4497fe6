#ifndef CT_TRANSLATE_H
#define CT_TRANSLATE_H

#include <stddef.h>
#include <stdint.h>

#include "delivered.h"
#include "queue.h"

/* The records of one buffer, on their way to the queue. */
struct ct_batch {
	struct ct_chunk *chunk;
	struct ct_counts counts;
	uint64_t now;
	uint64_t last;    /* when the latest record with a time began, or the last buffer came */
	uint32_t version; /* of CUPTI */
	uint32_t target;  /* work of calls up to this correlation ID is awaited */
	struct ct_delivery delivery;
	struct ct_loss lost[CT_LOST_CAUSES];
	struct {
		const char *text;
		uint32_t id;
	} names[64]; /* numbers of names seen in this buffer, by pointer */
};
void ct_translate(struct ct_batch *b, const unsigned char *record, size_t left);
void ct_batch_lost(struct ct_batch *b, enum ct_lost_cause cause, uint64_t time);
void ct_batch_end(struct ct_batch *b);

#endif
