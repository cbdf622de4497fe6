/* Makes the records of finished GPU work, and in a forced flush of running work. */
#include <string.h>

#include "internal.h"

#define CHANNEL_COMPUTE 1
#define CHANNEL_COPY 2

static _Atomic int64_t grids;

/* Without room for times on the device CUPTI leaves out start and end. */
static bool timeless(void)
{
	static _Atomic uint64_t count;
	uint64_t every = sim_config()->zero_every;
	return every && (atomic_fetch_add(&count, 1) + 1) % every == 0;
}

struct times {
	uint64_t start, end;
};

/* Of work that a forced flush cuts short CUPTI knows no end, and no start where it
 * had not begun. */
static struct times times_of(const struct sim_work *w, bool running)
{
	if (timeless())
		return (struct times){0, 0};
	return (struct times){w->start ? cupti_gpu_time(w->start) : 0, running ? 0 : cupti_gpu_time(w->end)};
}

/* Loses one record in so many, as configured. */
static void store(const void *record, size_t size)
{
	static _Atomic uint64_t count;
	uint64_t every = sim_config()->drop_every;
	if (every && (atomic_fetch_add(&count, 1) + 1) % every == 0)
		cupti_store_dropped();
	else
		cupti_store(record, size);
}

static void kernel(const struct sim_work *w, bool running)
{
	const struct sim_kernel *k = w->kernel.kernel;
	const struct sim_launch *l = &w->kernel.launch;
	struct times t = times_of(w, running);
	CUptiKernel r = {
		.kind = cupti_kind_at(CUPTI_KIND_CONCURRENT_KERNEL, w->submit) ? CUPTI_KIND_CONCURRENT_KERNEL : CUPTI_KIND_KERNEL,
		.registersPerThread = (uint16_t)k->registers,
		.start = t.start, .end = t.end,
		.deviceId = w->device, .contextId = w->context, .streamId = w->stream,
		.gridX = (int32_t)l->grid[0], .gridY = (int32_t)l->grid[1], .gridZ = (int32_t)l->grid[2],
		.blockX = (int32_t)l->block[0], .blockY = (int32_t)l->block[1], .blockZ = (int32_t)l->block[2],
		.staticSharedMemory = (int32_t)k->static_shared, .dynamicSharedMemory = (int32_t)l->dynamic_shared,
		.localMemoryPerThread = k->local_per_thread,
		.correlationId = w->correlation, .gridId = atomic_fetch_add(&grids, 1) + 1, .name = k->name,
		.launchType = w->kernel.cooperative, .sharedMemoryExecuted = 32768,
		.graphNodeId = w->graph_node, .graphId = w->graph,
		.channelID = 3, .channelType = CHANNEL_COMPUTE,
		.clusterX = l->cluster[0], .clusterY = l->cluster[1], .clusterZ = l->cluster[2],
	};
	r.completed = r.end;
	store(&r, sizeof r);
}

static void peer_copy(const struct sim_work *w, bool running)
{
	const struct sim_copy_work *c = &w->copy;
	struct times t = times_of(w, running);
	CUptiMemcpyPeer r = {
		.kind = CUPTI_KIND_MEMCPY2, .copyKind = c->kind, .srcKind = c->src_kind, .dstKind = c->dst_kind,
		.flags = c->async, .bytes = c->width * c->height * c->depth, .start = t.start, .end = t.end,
		.deviceId = w->device, .contextId = w->context, .streamId = w->stream,
		.srcDeviceId = c->src_device, .srcContextId = c->src_context,
		.dstDeviceId = c->dst_device, .dstContextId = c->dst_context,
		.correlationId = w->correlation, .graphNodeId = w->graph_node, .graphId = w->graph,
		.channelID = 12, .channelType = CHANNEL_COPY,
	};
	store(&r, sizeof r);
}

static void copy(const struct sim_work *w, bool running)
{
	const struct sim_copy_work *c = &w->copy;
	struct times t = times_of(w, running);
	CUptiMemcpy r = {
		.kind = CUPTI_KIND_MEMCPY, .copyKind = c->kind, .srcKind = c->src_kind, .dstKind = c->dst_kind,
		.flags = c->async, .bytes = c->width * c->height * c->depth, .start = t.start, .end = t.end,
		.deviceId = w->device, .contextId = w->context, .streamId = w->stream,
		.correlationId = w->correlation, .graphNodeId = w->graph_node, .graphId = w->graph,
		.channelID = 12, .channelType = CHANNEL_COPY, .copyCount = 1,
	};
	store(&r, sizeof r);
}

static void set(const struct sim_work *w, bool running)
{
	const struct sim_set_work *s = &w->set;
	struct times t = times_of(w, running);
	CUptiMemset r = {
		.kind = CUPTI_KIND_MEMSET, .value = s->value, .bytes = s->width * s->height * s->unit,
		.start = t.start, .end = t.end,
		.deviceId = w->device, .contextId = w->context, .streamId = w->stream,
		.correlationId = w->correlation, .flags = s->async, .memoryKind = s->kind,
		.graphNodeId = w->graph_node, .graphId = w->graph, .channelID = 3, .channelType = CHANNEL_COMPUTE,
	};
	store(&r, sizeof r);
}

void cupti_on_work(const struct sim_work *w, bool running)
{
	switch (w->type) {
	case SIM_KERNEL:
		if (cupti_kind_at(CUPTI_KIND_CONCURRENT_KERNEL, w->submit) || cupti_kind_at(CUPTI_KIND_KERNEL, w->submit))
			kernel(w, running);
		break;
	case SIM_COPY:
		if (w->copy.peer && cupti_kind_at(CUPTI_KIND_MEMCPY2, w->submit))
			peer_copy(w, running);
		else if (!w->copy.peer && cupti_kind_at(CUPTI_KIND_MEMCPY, w->submit))
			copy(w, running);
		break;
	case SIM_SET:
		if (cupti_kind_at(CUPTI_KIND_MEMSET, w->submit))
			set(w, running);
		break;
	default:
		break;
	}
}
