#include "internal.h"

static _Thread_local struct sim_frame *current;
static _Atomic uint32_t correlations;

uint32_t sim_correlation(void)
{
	return current ? current->correlation : 0;
}

void sim_note_kernel(const char *name)
{
	if (current)
		current->symbol = name;
}

static void enter(struct sim_frame *f)
{
	const struct sim_client *client = sim_client();
	if (!client)
		return;
	struct sim_frame *up = current;
	f->up = up;
	f->correlation = up ? up->correlation : atomic_fetch_add_explicit(&correlations, 1, memory_order_relaxed) + 1;
	f->covered = up && (up->covered || up->recorded);
	f->recorded = false;
	f->data = 0;
	f->symbol = NULL;
	f->arguments = NULL;
	f->live = true;
	current = f;
	client->enter(f);
}

static void leave(struct sim_frame *f, int result)
{
	const struct sim_client *client = sim_client();
	current = f->up;
	if (f->up && !f->up->symbol)
		f->up->symbol = f->symbol;
	if (client)
		client->exit(f, result);
}

void sim_report_pool(enum sim_pool_op op, CUmemoryPool p, uint64_t keep)
{
	const struct sim_client *client = sim_client();
	if (!client || !current)
		return;
	struct sim_pool_info info = {
		.op = op, .correlation = sim_correlation(), .device = (uint32_t)p->device, .address = (uint64_t)p->base,
		.size = atomic_load(&p->reserved), .threshold = atomic_load(&p->threshold),
		.used = atomic_load(&p->used), .keep = keep,
	};
	client->pool(&info);
}

SIM_EXPORT struct sim_hook cudasim_hook = {
	.version = SIM_HOOK_VERSION,
	.size = sizeof cudasim_hook,
	.enter = enter,
	.exit = leave,
	.drain = sim_engine_drain,
	.device = sim_device_info,
	.contexts = sim_each_context,
	.streams = sim_each_stream,
	.context_id = sim_context_id,
	.stream_id = sim_stream_id,
	.correlation = sim_correlation,
	.started = sim_started,
	.forked = sim_forked,
};
