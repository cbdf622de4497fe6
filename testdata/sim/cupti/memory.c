/* Records about pools of memory. */
#include "internal.h"

#define POOL_LOCAL 1 /* of this process */

void cupti_on_pool(const struct sim_pool_info *p)
{
	CUptiMemoryPool r = {
		.kind = CUPTI_KIND_MEMORY_POOL, .memoryPoolOperationType = p->op, .memoryPoolType = POOL_LOCAL,
		.correlationId = p->correlation, .processId = cupti_process_id(), .deviceId = p->device,
		.minBytesToKeep = p->keep, .address = p->address, .size = p->size, .releaseThreshold = p->threshold,
		.timestamp = cupti_clock(), .utilizedSize = p->used,
	};
	if (cupti_kind(CUPTI_KIND_MEMORY_POOL))
		cupti_store(&r, sizeof r);
}
