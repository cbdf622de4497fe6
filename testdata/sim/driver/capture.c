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

DRIVER_SHOWN_PTSZ(cuStreamBeginCapture_v2, (CUstream s, int mode), (s, mode), ((void)mode, begin(s, which)))
DRIVER_SHOWN_PTSZ(cuStreamEndCapture, (CUstream s, CUgraph *out), (s, out), end(s, out, which))
