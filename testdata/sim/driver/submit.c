#include <stdlib.h>
#include <string.h>

#include "internal.h"

static void fill(struct sim_work *w, struct CUstream_st *s, enum sim_work_type type)
{
	w->type = type;
	w->correlation = sim_correlation();
	w->device = (uint32_t)s->ctx->device;
	w->context = s->ctx->id;
	w->stream = s->id;
	w->graph = 0;
	w->graph_node = 0;
	w->reported = false;
	w->start = w->end = 0;
	w->submit = sim_now();
}

static void linger(void)
{
	struct timespec t = {.tv_sec = (time_t)(sim_config()->return_ns / 1000000000), .tv_nsec = (long)(sim_config()->return_ns % 1000000000)};
	if (sim_config()->return_ns)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

CUresult sim_submit_begin(struct CUstream_st *s, enum sim_work_type type, struct sim_work **out)
{
	pthread_mutex_lock(&s->mu);
	if (s->capture) {
		*out = sim_graph_append(s->capture, type);
		if (*out)
			return CUDA_SUCCESS;
		pthread_mutex_unlock(&s->mu);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
	if (head - atomic_load_explicit(&s->retired, memory_order_acquire) >= SIM_RING)
		sim_engine_wait_room(s);
	*out = &s->ring[head % SIM_RING];
	fill(*out, s, type);
	return CUDA_SUCCESS;
}

void sim_submit_commit(struct CUstream_st *s)
{
	bool captured = s->capture != NULL;
	if (!captured)
		atomic_fetch_add_explicit(&s->head, 1, memory_order_release);
	pthread_mutex_unlock(&s->mu);
	if (!captured)
		sim_engine_kick();
	linger();
}

void sim_submit_abandon(struct CUstream_st *s)
{
	if (s->capture)
		sim_graph_pop(s->capture);
	pthread_mutex_unlock(&s->mu);
}

void sim_work_clear(struct sim_work *w)
{
	if (w->type == SIM_KERNEL && w->kernel.args != w->kernel.inline_args) {
		free(w->kernel.args);
		w->kernel.args = NULL;
	}
}
