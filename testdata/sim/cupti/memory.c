/* Records about memory and its pools. */
#include <signal.h>

#include "internal.h"

#define POOL_LOCAL 1 /* of this process */

void cupti_on_memory(const struct sim_memory_info *m)
{
	CUptiMemory r = {
		.kind = CUPTI_KIND_MEMORY2, .memoryOperationType = m->op, .memoryKind = m->kind,
		.correlationId = m->correlation, .address = m->address, .bytes = m->bytes, .timestamp = cupti_clock(),
		.processId = cupti_process_id(), .deviceId = m->device, .contextId = m->context, .streamId = m->stream,
		.isAsync = m->stream != UINT32_MAX,
	};
	if (!cupti_kind(CUPTI_KIND_MEMORY2))
		return;
	if (!m->pool && m->op == SIM_RELEASED && m->stream != UINT32_MAX)
		raise(SIGSEGV); /* as CUPTI 13.0.1 does: memory without a pool, freed in stream order, kills the program */
	if (m->pool) {
		r.pool.type = POOL_LOCAL;
		r.pool.address = m->pool->address;
		r.pool.releaseThreshold = m->pool->threshold;
		r.pool.size = m->pool->size;
		r.pool.utilizedSize = m->pool->used;
	}
	cupti_store(&r, sizeof r);
}

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
