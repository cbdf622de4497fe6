#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define FIRST_ID 13 /* CUPTI numbers a program's streams from here */

static struct sim_slab streams = SIM_SLAB(struct CUstream_st, 16384);
static _Atomic uint32_t next_id = FIRST_ID;

static struct sim_stream_info describe(const struct CUstream_st *s, uint32_t correlation)
{
	enum sim_stream_kind kind = s->flags & CU_STREAM_NON_BLOCKING ? SIM_STREAM_NON_BLOCKING : SIM_STREAM_DEFAULT;
	if (s == s->ctx->null_stream)
		kind = SIM_STREAM_NULL;
	return (struct sim_stream_info){s->id, s->ctx->id, kind, correlation, s->priority};
}

void sim_stream_announce(const struct CUstream_st *s)
{
	const struct sim_client *client = sim_client();
	if (client) {
		struct sim_stream_info info = describe(s, sim_correlation());
		client->stream(&info);
	}
}

CUresult sim_stream_new(CUcontext ctx, unsigned flags, int priority, uint32_t id, CUstream *out)
{
	struct CUstream_st *s = sim_slab_get(&streams);
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->ring = calloc(SIM_RING, sizeof *s->ring);
	if (!s->ring) {
		sim_slab_put(&streams, s);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	s->id = id ? id : atomic_fetch_add(&next_id, 1);
	s->flags = flags;
	s->priority = priority;
	s->ctx = ctx;
	pthread_mutex_init(&s->mu, NULL);
	sim_engine_add(s);
	*out = s;
	if (!id) /* a context's own stream is announced with its context */
		sim_stream_announce(s);
	return CUDA_SUCCESS;
}

void sim_stream_release(struct CUstream_st *s)
{
	free(s->ring);
	s->ring = NULL;
	pthread_mutex_destroy(&s->mu);
	sim_slab_put(&streams, s);
}

/* The per-thread default stream of each context, made at first use. */
static CUresult per_thread(CUcontext ctx, struct CUstream_st **out)
{
	static _Thread_local struct {
		CUcontext ctx;
		CUstream stream;
	} cache[4];
	for (size_t i = 0; i < sizeof cache / sizeof *cache; i++) {
		if (!cache[i].ctx) {
			CUresult r = sim_stream_new(ctx, 0, 0, 0, &cache[i].stream);
			if (r)
				return r;
			cache[i].ctx = ctx;
		}
		if (cache[i].ctx == ctx) {
			*out = cache[i].stream;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_stream_resolve(CUstream handle, enum sim_default_stream which, struct CUstream_st **out)
{
	if (!sim_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!handle)
		handle = which == SIM_PTDS ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
		CUcontext ctx = sim_context_current();
		if (!ctx)
			return CUDA_ERROR_INVALID_CONTEXT;
		if (handle == CU_STREAM_PER_THREAD)
			return per_thread(ctx, out);
		*out = ctx->null_stream;
		return CUDA_SUCCESS;
	}
	if (!sim_slab_has(&streams, handle) || atomic_load(&handle->closed))
		return CUDA_ERROR_INVALID_HANDLE;
	*out = handle;
	return CUDA_SUCCESS;
}

uint32_t sim_stream_id(const void *handle)
{
	struct CUstream_st *s;
	return sim_stream_resolve((CUstream)(uintptr_t)handle, SIM_LEGACY, &s) ? 0 : s->id;
}

struct announcement {
	void (*each)(const struct sim_stream_info *);
};

static void announce_one(struct CUstream_st *s, void *arg)
{
	struct announcement *a = arg;
	struct sim_stream_info info = describe(s, 0);
	a->each(&info);
}

void sim_each_stream(void (*each)(const struct sim_stream_info *))
{
	struct announcement a = {each};
	sim_engine_each(announce_one, &a);
}

static CUresult create(CUstream *out, unsigned flags, int priority)
{
	CUcontext ctx = sim_context_current();
	if (!out || flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ctx)
		return sim_ready() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
	return sim_stream_new(ctx, flags, priority, 0, out);
}

static CUresult destroy(CUstream handle)
{
	struct CUstream_st *s;
	if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult r = sim_stream_resolve(handle, SIM_LEGACY, &s);
	if (r)
		return r;
	atomic_store(&s->closed, true);
	sim_engine_kick();
	return CUDA_SUCCESS;
}

CUresult sim_stream_wait(struct CUstream_st *s)
{
	pthread_mutex_lock(&s->mu);
	bool capturing = s->capture != NULL;
	pthread_mutex_unlock(&s->mu);
	if (capturing)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	sim_engine_wait(&s->executed, atomic_load(&s->head));
	sim_sleep_until(atomic_load(&s->available));
	return CUDA_SUCCESS;
}

static CUresult synchronize(CUstream handle, enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_resolve(handle, which, &s);
	return r ? r : sim_stream_wait(s);
}

/* Returns the kind of stream in the argument that is not NULL. */
struct about {
	int *priority;
	unsigned *flags;
	unsigned long long *id;
	CUcontext *ctx;
	CUdevice *device;
};

struct callback {
	CUstreamCallback call;
	CUstream stream;
	void *data;
};

static void run_callback(void *arg)
{
	struct callback *c = arg;
	c->call(c->stream, CUDA_SUCCESS, c->data);
	free(c);
}

static CUresult add_callback(CUstream s, CUstreamCallback call, void *data, enum sim_default_stream which)
{
	struct callback *c = call ? malloc(sizeof *c) : NULL;
	if (!c)
		return call ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	*c = (struct callback){call, s, data};
	CUresult r = sim_host_submit(s, run_callback, c, which);
	if (r)
		free(c);
	return r;
}

DRIVER(cuStreamCreate, (CUstream * out, unsigned flags), create(out, flags, 0))
DRIVER(cuStreamCreateWithPriority, (CUstream * out, unsigned flags, int priority), create(out, flags, priority))
DRIVER(cuStreamDestroy_v2, (CUstream s), destroy(s))
DRIVER_PTSZ(cuStreamSynchronize, (CUstream s), synchronize(s, which))
DRIVER_PTSZ(cuStreamAddCallback, (CUstream s, CUstreamCallback call, void *data, unsigned flags),
	    ((void)flags, add_callback(s, call, data, which)))
