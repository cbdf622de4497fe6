/* What happens to a buffer that CUPTI has filled. */
#include "inject.h"

#define KERNEL_BYTES 216 /* of CUPTI 13's kernel record, the largest we ask for */

static _Atomic(const struct ct_cupti *) active; /* NULL while records go nowhere */
static _Atomic uint64_t checked; /* when dropped records were last asked for */
static _Atomic uint64_t handed;  /* buffers that CUPTI has handed over */

void ct_complete_start(const struct ct_cupti *api)
{
	atomic_store(&checked, ct_now());
	atomic_store(&active, api);
}

/* Called on a thread of CUPTI or under its FlushAll; several at once. */
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
	uint64_t since = atomic_exchange(&checked, b->now);
	if (since > b->now) /* another thread was quicker with a later buffer */
		since = b->last;
	size_t dropped = 0;
	if (api->get_dropped(context, stream, &dropped) != 0 || dropped == 0)
		return;
	ct_loss_add(&b->lost[CT_LOST_CUPTI], &(struct ct_loss){.count = dropped, .from = since, .to = b->now});
}

/* Threads may have overwritten each other in it, so only its length means anything. */
static void count_scratch(struct ct_batch *b, size_t valid)
{
	uint64_t least = (valid + KERNEL_BYTES - 1) / KERNEL_BYTES;
	ct_loss_add(&b->lost[CT_LOST_BUFFER], &(struct ct_loss){.count = least, .from = b->last, .to = b->now});
}

static void read_buffer(const struct ct_cupti *api, void *context, uint32_t stream, uint8_t *buffer, size_t valid)
{
	struct ct_batch b = {.last = ct_complete_last(), .now = ct_now(), .version = api->version, .target = ct_gather_target()};
	if (b.last > b.now)
		b.last = b.now;
	if (ct_pool_scratch(buffer))
		count_scratch(&b, valid);
	else if (valid > 0)
		step(api, &b, buffer, valid);
	count_dropped(api, &b, context, stream);
	ct_batch_end(&b);
}

/* How many buffers CUPTI has handed over. */
uint64_t ct_complete_count(void)
{
	return atomic_load(&handed);
}

/* When CUPTI last handed a buffer over, or recording began. */
uint64_t ct_complete_last(void)
{
	return atomic_load(&checked);
}

void ct_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	sigset_t before;
	if (!buffer || !ct_ours())
		return;
	ct_signals_block(&before);
	atomic_fetch_add_explicit(&handed, 1, memory_order_relaxed);
	const struct ct_cupti *api = atomic_load(&active);
	if (api && valid <= size)
		read_buffer(api, context, stream, buffer, valid);
	if (!ct_pool_scratch(buffer))
		ct_pool_release(buffer);
	ct_signals_restore(&before);
}
