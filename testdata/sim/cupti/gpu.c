/* From finished (or, in a forced flush, running) GPU work to its record. */
#include <string.h>

#include "internal.h"

#define CHANNEL_COMPUTE 1
#define CHANNEL_COPY 2

static _Atomic int64_t grids;

static uint64_t start_of(const struct sim_work *w)
{
	return cupti_gpu_time(w->start);
}

/* Of work that is cut short by a forced flush CUPTI knows no end. */
static uint64_t end_of(const struct sim_work *w, bool running)
{
	return running ? 0 : cupti_gpu_time(w->end);
}

static void kernel(const struct sim_work *w, bool running)
{
	const struct sim_kernel *k = w->kernel.kernel;
	const struct sim_launch *l = &w->kernel.launch;
	bool no_times = sim_config()->zero_times && cupti_has_callback();
	CUptiKernel r = {
		.kind = cupti_kind(CUPTI_KIND_CONCURRENT_KERNEL) ? CUPTI_KIND_CONCURRENT_KERNEL : CUPTI_KIND_KERNEL,
		.registersPerThread = (uint16_t)k->registers,
		.start = no_times ? 0 : start_of(w), .end = no_times ? 0 : end_of(w, running),
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
	cupti_store(&r, sizeof r);
}

static void peer_copy(const struct sim_work *w, bool running)
{
	const struct sim_copy_work *c = &w->copy;
	CUptiMemcpyPeer r = {
		.kind = CUPTI_KIND_MEMCPY2, .copyKind = c->kind, .srcKind = c->src_kind, .dstKind = c->dst_kind,
		.flags = c->async, .bytes = c->width * c->height, .start = start_of(w), .end = end_of(w, running),
		.deviceId = w->device, .contextId = w->context, .streamId = w->stream,
		.srcDeviceId = c->src_device, .srcContextId = c->src_context,
		.dstDeviceId = c->dst_device, .dstContextId = c->dst_context,
		.correlationId = w->correlation, .graphNodeId = w->graph_node, .graphId = w->graph,
		.channelID = 12, .channelType = CHANNEL_COPY,
	};
	cupti_store(&r, sizeof r);
}

static void copy(const struct sim_work *w, bool running)
{
	const struct sim_copy_work *c = &w->copy;
	CUptiMemcpy r = {
		.kind = CUPTI_KIND_MEMCPY, .copyKind = c->kind, .srcKind = c->src_kind, .dstKind = c->dst_kind,
		.flags = c->async, .bytes = c->width * c->height, .start = start_of(w), .end = end_of(w, running),
		.deviceId = w->device, .contextId = w->context, .streamId = w->stream,
		.correlationId = w->correlation, .graphNodeId = w->graph_node, .graphId = w->graph,
		.channelID = 12, .channelType = CHANNEL_COPY, .copyCount = 1,
	};
	cupti_store(&r, sizeof r);
}

static void set(const struct sim_work *w, bool running)
{
	const struct sim_set_work *s = &w->set;
	CUptiMemset r = {
		.kind = CUPTI_KIND_MEMSET, .value = s->value, .bytes = s->width * s->height * s->unit,
		.start = start_of(w), .end = end_of(w, running),
		.deviceId = w->device, .contextId = w->context, .streamId = w->stream,
		.correlationId = w->correlation, .flags = s->async, .memoryKind = s->kind,
		.graphNodeId = w->graph_node, .graphId = w->graph, .channelID = 3, .channelType = CHANNEL_COMPUTE,
	};
	cupti_store(&r, sizeof r);
}

void cupti_on_work(const struct sim_work *w, bool running)
{
	switch (w->type) {
	case SIM_KERNEL:
		if (cupti_kind(CUPTI_KIND_CONCURRENT_KERNEL) || cupti_kind(CUPTI_KIND_KERNEL))
			kernel(w, running);
		break;
	case SIM_COPY:
		if (w->copy.peer && cupti_kind(CUPTI_KIND_MEMCPY2))
			peer_copy(w, running);
		else if (!w->copy.peer && cupti_kind(CUPTI_KIND_MEMCPY))
			copy(w, running);
		break;
	case SIM_SET:
		if (cupti_kind(CUPTI_KIND_MEMSET))
			set(w, running);
		break;
	default:
		break;
	}
}
