/* Records about memory and its pools. */
#include <pthread.h>
#include <signal.h>

#include "internal.h"

#define POOL_LOCAL 1 /* of this process */

/* Allocations whose record is not written yet. A new one takes the first place that is free. */
#define MOST_ALLOCATIONS 65536
static CUptiAllocation live[MOST_ALLOCATIONS]; /* address 0: none */
static unsigned live_end;
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;

static void allocated(const struct sim_memory_info *m)
{
	unsigned i = 0;
	while (i < live_end && live[i].address != 0)
		i++;
	if (i == MOST_ALLOCATIONS) {
		cupti_store_dropped();
		return;
	}
	if (i == live_end)
		live_end++;
	live[i] = (CUptiAllocation){
		.kind = CUPTI_KIND_MEMORY, .memoryKind = m->kind, .address = m->address, .bytes = m->bytes, .start = cupti_clock(),
		.processId = cupti_process_id(), .deviceId = m->device, .contextId = m->context,
	};
}

static void released(const struct sim_memory_info *m)
{
	unsigned i = 0;
	while (i < live_end && live[i].address != m->address)
		i++;
	if (i == live_end)
		return; /* it was allocated before the kind was switched on */
	live[i].end = cupti_clock();
	cupti_store(&live[i], sizeof live[i]);
	live[i].address = 0;
}

/* One record an allocation, which has its release, too. Memory from a pool has none (H100, CUPTI 13.0.1). */
static void record_allocation(const struct sim_memory_info *m)
{
	if (m->pool)
		return;
	pthread_mutex_lock(&live_lock);
	if (m->op == SIM_ALLOCATED)
		allocated(m);
	else
		released(m);
	pthread_mutex_unlock(&live_lock);
}

void cupti_flush_memory(void)
{
	pthread_mutex_lock(&live_lock);
	for (unsigned i = 0; i < live_end; i++) {
		if (live[i].address != 0)
			cupti_store(&live[i], sizeof live[i]);
		live[i].address = 0;
	}
	live_end = 0;
	pthread_mutex_unlock(&live_lock);
}

void cupti_on_memory(const struct sim_memory_info *m)
{
	if (cupti_kind(CUPTI_KIND_MEMORY))
		record_allocation(m);
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
