#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* A graph is its nodes in the order in which they were added, which is an
 * order that its dependencies allow; a launch puts them on one stream. */
struct CUgraph_st {
	struct sim_handle handle;
	uint32_t id;
	struct sim_work **nodes;
	size_t count, room;
};

struct CUgraphExec_st {
	struct sim_handle handle;
	uint32_t id;
	struct sim_work *nodes;
	size_t count;
};

static struct sim_slab graphs = SIM_SLAB(struct CUgraph_st, 65536);
static struct sim_slab execs = SIM_SLAB(struct CUgraphExec_st, 65536);
static _Atomic uint32_t next_id = 1;

static CUresult create(CUgraph *out)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	struct CUgraph_st *g = sim_slab_get(&graphs);
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	g->id = atomic_fetch_add(&next_id, 1);
	*out = g;
	return CUDA_SUCCESS;
}

struct sim_work *sim_graph_append(struct CUgraph_st *g, enum sim_work_type type)
{
	if (g->count == g->room) {
		size_t n = g->room ? g->room * 2 : 16;
		struct sim_work **bigger = realloc(g->nodes, n * sizeof *bigger);
		if (!bigger)
			return NULL;
		g->nodes = bigger;
		g->room = n;
	}
	struct sim_work *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->type = type;
	g->nodes[g->count++] = w;
	return w;
}

void sim_graph_pop(struct CUgraph_st *g)
{
	free(g->nodes[--g->count]);
}

static CUresult destroy(CUgraph g)
{
	if (!sim_slab_has(&graphs, g))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < g->count; i++) {
		sim_work_clear(g->nodes[i]);
		free(g->nodes[i]);
	}
	free(g->nodes);
	sim_slab_put(&graphs, g);
	return CUDA_SUCCESS;
}

static CUresult add_kernel(CUgraphNode *out, CUgraph g, const CUDA_KERNEL_NODE_PARAMS *p)
{
	if (!out || !p || !sim_slab_has(&graphs, g))
		return CUDA_ERROR_INVALID_VALUE;
	CUfunction f = p->func ? p->func : p->kern;
	if (!sim_function_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	struct sim_launch l = {{p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ},
			       {0, 0, 0}, p->sharedMemBytes};
	struct sim_work *w = sim_graph_append(g, SIM_KERNEL);
	if (!w)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = sim_kernel_fill(&w->kernel, f->kernel, &l, p->kernelParams, p->extra);
	if (r)
		sim_graph_pop(g);
	else
		*out = (CUgraphNode)w;
	return r;
}

static CUresult copy_node(struct sim_work *to, const struct sim_work *from)
{
	*to = *from;
	return from->type == SIM_KERNEL ? sim_kernel_copy(&to->kernel, &from->kernel) : CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *out, CUgraph g)
{
	if (!out || !sim_slab_has(&graphs, g))
		return CUDA_ERROR_INVALID_VALUE;
	struct CUgraphExec_st *e = sim_slab_get(&execs);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->id = atomic_fetch_add(&next_id, 1);
	e->nodes = calloc(g->count ? g->count : 1, sizeof *e->nodes);
	CUresult r = e->nodes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	for (; !r && e->count < g->count; e->count++)
		r = copy_node(&e->nodes[e->count], g->nodes[e->count]);
	*out = e;
	return r;
}

static CUresult destroy_exec(CUgraphExec e)
{
	if (!sim_slab_has(&execs, e))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < e->count; i++)
		sim_work_clear(&e->nodes[i]);
	free(e->nodes);
	sim_slab_put(&execs, e);
	return CUDA_SUCCESS;
}

static CUresult submit_node(struct CUstream_st *s, const struct CUgraphExec_st *e, size_t index)
{
	const struct sim_work *node = &e->nodes[index];
	struct sim_work *w;
	CUresult r = sim_submit_begin(s, node->type, &w);
	if (r)
		return r;
	if (s->capture) { /* a child graph */
		sim_submit_abandon(s);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	w->graph = e->id;
	w->graph_node = (uint64_t)e->id << 32 | index;
	switch (node->type) {
	case SIM_KERNEL:
		r = sim_kernel_copy(&w->kernel, &node->kernel);
		break;
	case SIM_COPY:
		w->copy = node->copy;
		break;
	case SIM_SET:
		w->set = node->set;
		break;
	case SIM_HOST:
		w->host.fn = node->host.fn;
		w->host.data = node->host.data;
		atomic_store(&w->host.state, SIM_HOST_NEW);
		break;
	default:
		r = CUDA_ERROR_NOT_SUPPORTED;
	}
	if (r)
		sim_submit_abandon(s);
	else
		sim_submit_commit(s);
	return r;
}

static CUresult launch(CUgraphExec e, CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (!r && !sim_slab_has(&execs, e))
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !r && i < e->count; i++)
		r = submit_node(s, e, i);
	return r;
}

static CUresult begin(CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUgraph g;
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (!r && s == s->ctx->null_stream)
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!r)
		r = create(&g);
	if (r)
		return r;
	pthread_mutex_lock(&s->mu);
	if (s->capture)
		r = CUDA_ERROR_ILLEGAL_STATE;
	else {
		s->capture = g;
		s->capture_origin = true;
	}
	pthread_mutex_unlock(&s->mu);
	if (r)
		destroy(g);
	return r;
}

static void leave_capture(struct CUstream_st *s, void *graph)
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
	sim_engine_each(leave_capture, *out);
	return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, int *status, enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUresult r = status ? sim_stream_resolve(stream, which, &s) : CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	pthread_mutex_lock(&s->mu);
	*status = s->capture != NULL;
	pthread_mutex_unlock(&s->mu);
	return CUDA_SUCCESS;
}

DRIVER(cuGraphCreate, (CUgraph * out, unsigned flags), ((void)flags, create(out)))
DRIVER(cuGraphDestroy, (CUgraph g), destroy(g))
DRIVER(cuGraphAddKernelNode_v2,
       (CUgraphNode * out, CUgraph g, const CUgraphNode *deps, size_t count, const CUDA_KERNEL_NODE_PARAMS *params),
       ((void)deps, (void)count, add_kernel(out, g, params)))
DRIVER(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph g, unsigned long long flags),
       ((void)flags, instantiate(out, g)))
DRIVER(cuGraphExecDestroy, (CUgraphExec e), destroy_exec(e))
DRIVER(cuGraphLaunch, (CUgraphExec e, CUstream s), launch(e, s, SIM_LEGACY))
DRIVER(cuGraphLaunch_ptsz, (CUgraphExec e, CUstream s), launch(e, s, SIM_PTDS))
DRIVER(cuStreamBeginCapture_v2, (CUstream s, int mode), ((void)mode, begin(s, SIM_LEGACY)))
DRIVER(cuStreamBeginCapture_v2_ptsz, (CUstream s, int mode), ((void)mode, begin(s, SIM_PTDS)))
DRIVER(cuStreamEndCapture, (CUstream s, CUgraph *out), end(s, out, SIM_LEGACY))
DRIVER(cuStreamEndCapture_ptsz, (CUstream s, CUgraph *out), end(s, out, SIM_PTDS))
DRIVER(cuStreamIsCapturing, (CUstream s, int *status), is_capturing(s, status, SIM_LEGACY))
DRIVER(cuStreamIsCapturing_ptsz, (CUstream s, int *status), is_capturing(s, status, SIM_PTDS))
