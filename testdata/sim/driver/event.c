#include "internal.h"

static struct sim_slab events = SIM_SLAB(struct CUevent_st, 1 << 20);

static CUresult create(CUevent *out, unsigned flags)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_context_current())
		return sim_ready() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
	struct CUevent_st *e = sim_slab_get(&events);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->flags = flags;
	atomic_store(&e->users, 1);
	pthread_mutex_init(&e->mu, NULL);
	*out = e;
	return CUDA_SUCCESS;
}

bool sim_event_valid(CUevent e)
{
	return sim_slab_has(&events, e) && !atomic_load(&e->closed);
}

void sim_event_put(struct CUevent_st *e)
{
	if (atomic_fetch_sub(&e->users, 1) == 1) {
		pthread_mutex_destroy(&e->mu);
		sim_slab_put(&events, e);
	}
}

static CUresult destroy(CUevent e)
{
	if (!sim_event_valid(e))
		return CUDA_ERROR_INVALID_HANDLE;
	atomic_store(&e->closed, true);
	sim_event_put(e);
	return CUDA_SUCCESS;
}

void sim_event_executed(const struct sim_event_work *w, uint64_t time)
{
	atomic_store(&w->event->time, time);
	atomic_store(&w->event->executed, w->version);
}

/* In a capture an event is a mark in the graph and no work. */
static bool captured(struct CUevent_st *e, struct CUstream_st *s)
{
	pthread_mutex_lock(&s->mu);
	struct CUgraph_st *g = s->capture;
	pthread_mutex_unlock(&s->mu);
	atomic_store(&e->capture, g);
	return g != NULL;
}

static CUresult record(CUevent e, CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	struct sim_work *w;
	CUresult r = sim_event_valid(e) ? sim_stream_resolve(stream, which, &s) : CUDA_ERROR_INVALID_HANDLE;
	if (r || captured(e, s))
		return r;
	pthread_mutex_lock(&e->mu);
	r = sim_submit_begin(s, SIM_EVENT, &w);
	if (!r) {
		w->event.event = e;
		w->event.version = atomic_fetch_add(&e->recorded, 1) + 1;
		atomic_fetch_add(&e->users, 1);
		sim_submit_commit(s);
	}
	pthread_mutex_unlock(&e->mu);
	return r;
}

static bool join_capture(struct CUevent_st *e, struct CUstream_st *s)
{
	struct CUgraph_st *g = atomic_load(&e->capture);
	if (!g)
		return false;
	pthread_mutex_lock(&s->mu);
	if (!s->capture)
		s->capture = g;
	pthread_mutex_unlock(&s->mu);
	return true;
}

static CUresult wait_event(CUstream stream, CUevent e, enum sim_default_stream which)
{
	struct CUstream_st *s;
	struct sim_work *w;
	CUresult r = sim_event_valid(e) ? sim_stream_resolve(stream, which, &s) : CUDA_ERROR_INVALID_HANDLE;
	if (r || join_capture(e, s))
		return r;
	uint64_t version = atomic_load(&e->recorded);
	if (version) {
		r = sim_submit_begin(s, SIM_WAIT, &w);
		if (r)
			return r;
		w->event.event = e;
		w->event.version = version;
		atomic_fetch_add(&e->users, 1);
		sim_submit_commit(s);
	}
	return CUDA_SUCCESS;
}

static CUresult synchronize(CUevent e)
{
	if (!sim_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!sim_event_valid(e))
		return CUDA_ERROR_INVALID_HANDLE;
	sim_engine_wait(&e->executed, atomic_load(&e->recorded));
	sim_sleep_until(atomic_load(&e->time));
	return CUDA_SUCCESS;
}

static bool passed(CUevent e)
{
	return atomic_load(&e->executed) >= atomic_load(&e->recorded) && atomic_load(&e->time) <= sim_now();
}

static CUresult elapsed(float *ms, CUevent a, CUevent b)
{
	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_event_valid(a) || !sim_event_valid(b) || !atomic_load(&a->recorded) || !atomic_load(&b->recorded))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!passed(a) || !passed(b))
		return CUDA_ERROR_NOT_READY;
	*ms = (float)((double)(int64_t)(atomic_load(&b->time) - atomic_load(&a->time)) / 1e6);
	return CUDA_SUCCESS;
}

DRIVER(cuEventCreate, (CUevent * out, unsigned flags), create(out, flags))
DRIVER(cuEventDestroy_v2, (CUevent e), destroy(e))
DRIVER_PTSZ(cuEventRecord, (CUevent e, CUstream s), record(e, s, which))
DRIVER(cuEventSynchronize, (CUevent e), synchronize(e))
DRIVER(cuEventElapsedTime_v2, (float *ms, CUevent a, CUevent b), elapsed(ms, a, b))
DRIVER_PTSZ(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned flags), ((void)flags, wait_event(s, e, which)))
