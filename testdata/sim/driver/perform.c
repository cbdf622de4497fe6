#include <string.h>

#include "internal.h"

static _Atomic uint64_t kernels;

static uint64_t transfer_ns(uint64_t bytes, uint64_t mb_s)
{
	return SIM_COPY_NS + bytes * 1000 / mb_s;
}

static uint64_t kernel_duration(const struct sim_kernel *k)
{
	uint64_t number = atomic_fetch_add_explicit(&kernels, 1, memory_order_relaxed) + 1;
	if (number == sim_config()->hang_after)
		return SIM_NEVER;
	return k->ns ? k->ns : sim_config()->kernel_ns;
}

uint64_t sim_work_duration(const struct sim_work *w)
{
	switch (w->type) {
	case SIM_KERNEL:
		return kernel_duration(w->kernel.kernel);
	case SIM_COPY:
		return transfer_ns(w->copy.width * w->copy.height * w->copy.depth,
				   sim_on_device(w->copy.src_kind) && sim_on_device(w->copy.dst_kind)
					   ? SIM_DEVICE_MB_S : sim_config()->host_mb_s);
	case SIM_SET:
		return transfer_ns(w->set.width * w->set.height * w->set.unit, SIM_DEVICE_MB_S);
	default:
		return 0;
	}
}

static void run_kernel(struct sim_kernel_work *k)
{
	void *args[SIM_MAX_PARAMS];
	char *at = k->args;
	for (uint32_t i = 0; i < k->kernel->params; i++) {
		args[i] = at;
		at += (k->kernel->param_size[i] + 7) & ~7u;
	}
	if (k->kernel->body)
		k->kernel->body(args, &k->launch);
}

static void run_copy(const struct sim_copy_work *c)
{
	for (size_t z = 0; z < c->depth; z++) {
		char *to = (char *)c->dst + z * c->dst_slice;
		const char *from = (const char *)c->src + z * c->src_slice;
		for (size_t y = 0; y < c->height; y++)
			memmove(to + y * c->dst_pitch, from + y * c->src_pitch, c->width);
	}
}

static void run_set(const struct sim_set_work *s)
{
	for (size_t y = 0; y < s->height; y++) {
		char *row = (char *)s->dst + y * s->pitch;
		if (s->unit == 1) {
			memset(row, (int)s->value, s->width);
			continue;
		}
		for (size_t x = 0; x < s->width; x++) /* little-endian: the low bytes come first */
			memcpy(row + x * s->unit, &s->value, s->unit);
	}
}

void sim_work_perform(struct sim_work *w)
{
	switch (w->type) {
	case SIM_KERNEL:
		run_kernel(&w->kernel);
		break;
	case SIM_COPY:
		run_copy(&w->copy);
		break;
	case SIM_SET:
		run_set(&w->set);
		break;
	case SIM_EVENT:
		sim_event_executed(&w->event, w->end);
		sim_event_put(w->event.event);
		break;
	case SIM_WAIT:
		sim_event_put(w->event.event);
		break;
	case SIM_FREE:
		sim_memory_drop(w->free);
		break;
	case SIM_VALUE:
		if (w->value.write)
			memcpy(w->value.address, &w->value.value, w->value.wide ? 8 : 4);
		break;
	case SIM_HOST:
		break;
	}
}
