#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

#define FLUSH_FORCED 1u

CUPTI(cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, uint32_t **record))
{
	if (!buffer || !record)
		return CUPTI_ERROR_INVALID_PARAMETER;
	uint8_t *at = buffer;
	if (*record) {
		size_t size = cupti_record_size(**record);
		if (!size)
			return CUPTI_ERROR_INVALID_KIND;
		at = (uint8_t *)*record + size;
	}
	if ((size_t)(at - buffer) >= valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (uint32_t *)(void *)at;
	return cupti_record_size(**record) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
}

/* Delivers all finished work, and with FLUSH_FORCED also running work.
 * Returns when the client has the records. */
CUPTI(cuptiActivityFlushAll, (uint32_t flag))
{
	if (!cupti_hook() || cupti_forked())
		return CUPTI_ERROR_NOT_INITIALIZED;
	if (!cupti_has_client())
		return CUPTI_SUCCESS;
	uint64_t start = cupti_clock();
	cupti_hook()->drain(flag & FLUSH_FORCED);
	cupti_hand_over();
	CUptiResult r = cupti_worker_wait();
	if (sim_config()->slow_flush_ms)
		usleep((useconds_t)sim_config()->slow_flush_ms * 1000);
	if (cupti_kind(CUPTI_KIND_OVERHEAD)) { /* reported at the next flush */
		CUptiOverhead o;
		cupti_overhead(&o, CUPTI_OVERHEAD_BUFFER_FLUSH, start);
		cupti_store(&o, sizeof o);
	}
	return r;
}

/* Full buffers are handed over at once, so a period changes nothing. */
CUPTI(cuptiActivityFlushPeriod, (uint32_t ms))
{
	(void)ms;
	return CUPTI_SUCCESS;
}

CUPTI(cuptiFinalize, (void))
{
	if (!cupti_hook() || cupti_forked())
		return CUPTI_ERROR_NOT_INITIALIZED;
	if (sim_config()->finalize_check && atomic_load(&cupti_hook()->inside) > 0)
		abort();
	cupti_kinds_clear();
	cupti_subscription_clear();
	cupti_reattach();
	cupti_hand_over();
	atomic_fetch_add(&cupti_hook()->finalized, 1);
	return CUPTI_SUCCESS;
}
