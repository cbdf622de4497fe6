/*
 * What happens to a buffer that CUPTI has filled: its records are translated, and it
 * goes back to the pool. CUPTI calls this on a thread of its own or under a flush, with
 * several buffers at once. CUPTI is asked for the next record and for the number of
 * dropped ones; no other function of CUPTI may be called here.
 */
#include "complete.h"

#include <stdatomic.h>

#include "clock.h"
#include "delivered.h"
#include "fork.h"
#include "pool.h"
#include "sigmask.h"
#include "translate.h"

#define KERNEL_BYTES 216 /* of CUPTI 13's kernel record, the largest we ask for */

static _Atomic(const struct ct_cupti *) active; /* NULL while records go nowhere */

/* With NULL, records go nowhere. */
void ct_complete_start(const struct ct_cupti *api)
{
	ct_delivered_start();
	atomic_store(&active, api);
}

static void step(const struct ct_cupti *api, struct ct_batch *b, uint8_t *buffer, size_t valid)
{
	void *record = NULL;
	ct_result r;
	while ((r = api->get_next_record(buffer, valid, &record)) == 0) {
		const unsigned char *p = record;
		if (p < buffer || p >= buffer + valid)
			break;
		ct_translate(b, p, valid - (size_t)(p - buffer));
	}
	if (r != CUPTI_MAX_LIMIT_REACHED)
		ct_batch_lost(b, CT_LOST_UNREADABLE, 0);
}

static void count_dropped(const struct ct_cupti *api, struct ct_batch *b, void *context, uint32_t stream)
{
	uint64_t since = ct_delivered_again(b->now);
	if (since > b->now) /* another thread was quicker with a later buffer */
		since = b->last;
	size_t dropped = 0;
	if (api->get_dropped(context, stream, &dropped) != 0 || dropped == 0)
		return;
	ct_loss_add(&b->lost[CT_LOST_CUPTI], &(struct ct_loss){.count = dropped, .from = since, .to = b->now});
}

/* Threads may have overwritten each other in this buffer: its length alone means anything. */
static void count_scratch(struct ct_batch *b, size_t valid)
{
	uint64_t least = (valid + KERNEL_BYTES - 1) / KERNEL_BYTES;
	ct_loss_add(&b->lost[CT_LOST_BUFFER], &(struct ct_loss){.count = least, .from = b->last, .to = b->now});
}

static void read_buffer(const struct ct_cupti *api, void *context, uint32_t stream, uint8_t *buffer, size_t valid)
{
	struct ct_batch b = {
		.last = ct_delivered_last(), .now = ct_now(), .version = api->version, .target = ct_delivered_target()};
	if (b.last > b.now)
		b.last = b.now;
	if (ct_pool_scratch(buffer))
		count_scratch(&b, valid);
	else if (valid > 0)
		step(api, &b, buffer, valid);
	count_dropped(api, &b, context, stream);
	ct_batch_end(&b);
}

void ct_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	sigset_t before;
	if (!buffer || !ct_here())
		return;
	ct_sigmask_block(&before);
	ct_delivered_buffer();
	const struct ct_cupti *api = atomic_load(&active);
	if (api && valid <= size)
		read_buffer(api, context, stream, buffer, valid);
	if (!ct_pool_scratch(buffer))
		ct_pool_release(buffer);
	ct_sigmask_restore(&before);
}
