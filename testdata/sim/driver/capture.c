/* Streams in capture: their calls add nodes to a graph and run nothing. */
#include "internal.h"

static CUresult join(struct CUstream_st *s, CUgraph g)
{
	CUresult r = CUDA_SUCCESS;
	pthread_mutex_lock(&s->mu);
	if (s->capture)
		r = CUDA_ERROR_ILLEGAL_STATE;
	else {
		s->capture = g;
		s->capture_origin = true;
	}
	pthread_mutex_unlock(&s->mu);
	return r;
}

static CUresult resolve(CUstream stream, enum sim_default_stream which, struct CUstream_st **s)
{
	CUresult r = sim_stream_resolve(stream, which, s);
	return !r && *s == (*s)->ctx->null_stream ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : r;
}

static CUresult begin(CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUgraph g;
	CUresult r = resolve(stream, which, &s);
	if (!r)
		r = sim_graph_new(&g);
	if (r)
		return r;
	r = join(s, g);
	if (r)
		sim_graph_destroy(g);
	return r;
}

static CUresult begin_to(CUstream stream, CUgraph g, enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUresult r = sim_graph_valid(g) ? resolve(stream, which, &s) : CUDA_ERROR_INVALID_VALUE;
	return r ? r : join(s, g);
}

static void leave(struct CUstream_st *s, void *graph)
{
	pthread_mutex_lock(&s->mu);
	if (s->capture == graph) {
		s->capture = NULL;
		s->capture_origin = false;
	}
	pthread_mutex_unlock(&s->mu);
}

static CUresult end(CUstream stream, CUgraph *out, enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUresult r = out ? sim_stream_resolve(stream, which, &s) : CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	pthread_mutex_lock(&s->mu);
	*out = s->capture_origin ? s->capture : NULL;
	pthread_mutex_unlock(&s->mu);
	if (!*out)
		return CUDA_ERROR_ILLEGAL_STATE;
	sim_engine_each(leave, *out);
	return CUDA_SUCCESS;
}

static CUresult info(CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **deps, size_t *count,
		     enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUresult r = status ? sim_stream_resolve(stream, which, &s) : CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	pthread_mutex_lock(&s->mu);
	CUgraph g = s->capture;
	*status = g != NULL;
	if (g && id)
		*id = g->id;
	if (g && graph)
		*graph = g;
	if (g && count)
		*count = g->count ? 1 : 0;
	if (g && deps)
		*deps = g->count ? &g->nodes[g->count - 1] : NULL;
	pthread_mutex_unlock(&s->mu);
	return CUDA_SUCCESS;
}

/* A thread's mode is stored without effect: no call is refused. */
static CUresult exchange(int *mode)
{
	static _Thread_local int own;
	if (!mode || *mode < 0 || *mode > 2)
		return CUDA_ERROR_INVALID_VALUE;
	int old = own;
	own = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

DRIVER_SHOWN_PTSZ(cuStreamBeginCapture_v2, (CUstream s, int mode), (s, mode), ((void)mode, begin(s, which)))
DRIVER_SHOWN_PTSZ(cuStreamBeginCaptureToGraph,
	    (CUstream s, CUgraph g, const CUgraphNode *deps, const void *data, size_t count, int mode),
	    (s, g, deps, data, count, mode),
	    ((void)deps, (void)data, (void)count, (void)mode, begin_to(s, g, which)))
DRIVER_SHOWN_PTSZ(cuStreamEndCapture, (CUstream s, CUgraph *out), (s, out), end(s, out, which))
DRIVER_PTSZ(cuStreamIsCapturing, (CUstream s, int *status), info(s, status, NULL, NULL, NULL, NULL, which))
DRIVER_PTSZ(cuStreamGetCaptureInfo_v2,
	    (CUstream s, int *status, uint64_t *id, CUgraph *g, const CUgraphNode **deps, size_t *count),
	    info(s, status, id, g, deps, count, which))
DRIVER_PTSZ(cuStreamGetCaptureInfo_v3,
	    (CUstream s, int *status, uint64_t *id, CUgraph *g, const CUgraphNode **deps, const void **data, size_t *count),
	    ((void)(data && (*data = NULL)), info(s, status, id, g, deps, count, which)))
DRIVER(cuThreadExchangeStreamCaptureMode, (int *mode), exchange(mode))
