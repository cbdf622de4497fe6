/* Making, copying, instantiating, updating and launching graphs. A launch puts the nodes
 * on one stream, in the order in which they were added. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* CUgraphExecUpdateResult */
enum { UPDATED, UPDATE_ERROR, TOPOLOGY_CHANGED, NODE_TYPE_CHANGED };

static struct sim_slab graphs = SIM_SLAB(struct CUgraph_st, 65536);
static struct sim_slab nodes = SIM_SLAB(struct CUgraphNode_st, 1 << 20);
static struct sim_slab execs = SIM_SLAB(struct CUgraphExec_st, 65536);
static _Atomic uint32_t next_id = 1;

bool sim_graph_valid(CUgraph g)
{
	return sim_slab_has(&graphs, g);
}

bool sim_node_valid(CUgraphNode n)
{
	return sim_slab_has(&nodes, n);
}

bool sim_exec_valid(CUgraphExec e)
{
	return sim_slab_has(&execs, e);
}

CUresult sim_graph_new(CUgraph *out)
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

static bool grow(struct CUgraph_st *g)
{
	if (g->count < g->room)
		return true;
	size_t n = g->room ? g->room * 2 : 16;
	CUgraphNode *bigger = realloc(g->nodes, n * sizeof(CUgraphNode));
	if (!bigger)
		return false;
	g->nodes = bigger;
	g->room = n;
	return true;
}

CUgraphNode sim_graph_node(CUgraph g, enum sim_node type, const CUgraphNode *dependencies, size_t count)
{
	CUgraphNode last = g->count ? g->nodes[g->count - 1] : NULL, n = grow(g) ? sim_slab_get(&nodes) : NULL;
	if (!n)
		return NULL;
	if (!dependencies && count) {
		dependencies = &last;
		count = last ? 1 : 0;
	}
	n->dependencies = count ? calloc(count, sizeof(CUgraphNode)) : NULL;
	for (size_t i = 0; n->dependencies && i < count; i++)
		n->dependencies[n->dependency_count++] = dependencies[i];
	n->graph = g;
	n->type = type;
	g->nodes[g->count++] = n;
	return n;
}

static enum sim_node node_type(enum sim_work_type type)
{
	switch (type) {
	case SIM_KERNEL:
		return SIM_NODE_KERNEL;
	case SIM_COPY:
		return SIM_NODE_MEMCPY;
	case SIM_SET:
		return SIM_NODE_MEMSET;
	case SIM_HOST:
		return SIM_NODE_HOST;
	case SIM_EVENT:
		return SIM_NODE_RECORD;
	case SIM_WAIT:
		return SIM_NODE_WAIT;
	case SIM_FREE:
		return SIM_NODE_FREE;
	default:
		return SIM_NODE_VALUES;
	}
}

struct sim_work *sim_graph_append(struct CUgraph_st *g, enum sim_work_type type)
{
	CUgraphNode n = sim_graph_node(g, node_type(type), NULL, 1);
	if (!n)
		return NULL;
	n->work.type = type;
	return &n->work;
}

static void release(CUgraphNode n)
{
	sim_work_clear(&n->work);
	if (n->child)
		sim_graph_destroy(n->child);
	free(n->dependencies);
	sim_slab_put(&nodes, n);
}

void sim_graph_pop(struct CUgraph_st *g)
{
	CUgraphNode n = g->nodes[--g->count];
	n->work.type = SIM_WAIT; /* it owns nothing yet */
	release(n);
}

CUresult sim_graph_destroy(CUgraph g)
{
	if (!sim_graph_valid(g))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < g->count; i++)
		release(g->nodes[i]);
	free(g->nodes);
	sim_slab_put(&graphs, g);
	return CUDA_SUCCESS;
}

CUresult sim_node_copy(struct sim_work *to, const struct sim_work *from)
{
	*to = *from;
	return from->type == SIM_KERNEL ? sim_kernel_copy(&to->kernel, &from->kernel) : CUDA_SUCCESS;
}

static CUresult exec_append(struct CUgraphExec_st *e, CUgraphNode n)
{
	if (e->count == e->room) {
		size_t room = e->room ? e->room * 2 : 16;
		struct sim_exec_node **bigger = realloc(e->nodes, room * sizeof(struct sim_exec_node *));
		if (!bigger)
			return CUDA_ERROR_OUT_OF_MEMORY;
		e->nodes = bigger;
		e->room = room;
	}
	struct sim_exec_node *x = calloc(1, sizeof *x);
	CUresult r = x ? sim_node_copy(&x->work, &n->work) : CUDA_ERROR_OUT_OF_MEMORY;
	if (r) {
		free(x);
		return r;
	}
	x->from = n;
	e->nodes[e->count++] = x;
	return CUDA_SUCCESS;
}

static CUresult flatten(struct CUgraphExec_st *e, const struct CUgraph_st *g)
{
	CUresult r = CUDA_SUCCESS;
	for (size_t i = 0; i < g->count && !r; i++) {
		if (g->nodes[i]->child)
			r = flatten(e, g->nodes[i]->child);
		else if (g->nodes[i]->type != SIM_NODE_FREE) /* a graph never frees memory */
			r = exec_append(e, g->nodes[i]);
	}
	return r;
}

static void empty_exec(struct CUgraphExec_st *e)
{
	for (size_t i = 0; i < e->count; i++) {
		sim_work_clear(&e->nodes[i]->work);
		free(e->nodes[i]);
	}
	free(e->nodes);
	e->nodes = NULL;
	e->count = e->room = 0;
}

static CUresult instantiate(CUgraphExec *out, CUgraph g)
{
	if (!out || !sim_graph_valid(g))
		return CUDA_ERROR_INVALID_VALUE;
	struct CUgraphExec_st *e = sim_slab_get(&execs);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->id = atomic_fetch_add(&next_id, 1);
	CUresult r = flatten(e, g);
	if (r) {
		empty_exec(e);
		sim_slab_put(&execs, e);
		return r;
	}
	*out = e;
	return CUDA_SUCCESS;
}

static CUresult destroy_exec(CUgraphExec e)
{
	if (!sim_exec_valid(e))
		return CUDA_ERROR_INVALID_VALUE;
	empty_exec(e);
	sim_slab_put(&execs, e);
	return CUDA_SUCCESS;
}

static int difference(const struct CUgraphExec_st *a, const struct CUgraphExec_st *b)
{
	if (a->count != b->count)
		return TOPOLOGY_CHANGED;
	for (size_t i = 0; i < a->count; i++)
		if (a->nodes[i]->work.type != b->nodes[i]->work.type)
			return NODE_TYPE_CHANGED;
	return UPDATED;
}

/* Gives the work of g to the executable graph, which must have g's shape. */
static CUresult update(CUgraphExec e, CUgraph g, CUgraphNode *error_node, int *result)
{
	struct CUgraphExec_st fresh = {.nodes = NULL};
	if (!sim_exec_valid(e) || !sim_graph_valid(g) || !result)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = flatten(&fresh, g);
	if (error_node)
		*error_node = NULL;
	*result = r ? UPDATE_ERROR : difference(e, &fresh);
	if (*result) {
		empty_exec(&fresh);
		return r ? r : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	for (size_t i = 0; i < fresh.count; i++)
		fresh.nodes[i]->from = e->nodes[i]->from;
	empty_exec(e);
	e->nodes = fresh.nodes;
	e->count = fresh.count;
	e->room = fresh.room;
	return CUDA_SUCCESS;
}

static CUresult update_info(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *info)
{
	if (!info)
		return CUDA_ERROR_INVALID_VALUE;
	info->errorFromNode = NULL;
	return update(e, g, &info->errorNode, &info->result);
}

static CUresult fill(struct sim_work *w, const struct sim_work *node)
{
	switch (node->type) {
	case SIM_KERNEL:
		return sim_kernel_copy(&w->kernel, &node->kernel);
	case SIM_COPY:
		w->copy = node->copy;
		break;
	case SIM_SET:
		w->set = node->set;
		break;
	case SIM_VALUE:
		w->value = node->value;
		break;
	case SIM_HOST:
		w->host.fn = node->host.fn;
		w->host.data = node->host.data;
		atomic_store(&w->host.state, SIM_HOST_NEW);
		break;
	case SIM_EVENT:
	case SIM_WAIT:
		w->event.event = node->event.event;
		atomic_fetch_add(&w->event.event->users, 1);
		w->event.version = node->type == SIM_EVENT ? atomic_fetch_add(&w->event.event->recorded, 1) + 1
							   : atomic_load(&w->event.event->recorded);
		break;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

static CUresult submit_node(struct CUstream_st *s, const struct CUgraphExec_st *e, size_t index)
{
	const struct sim_work *node = &e->nodes[index]->work;
	struct sim_work *w;
	CUresult r = sim_submit_begin(s, node->type, &w);
	if (r)
		return r;
	r = s->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED /* a child graph */ : fill(w, node);
	if (r) {
		sim_submit_abandon(s);
		return r;
	}
	w->graph = e->id;
	w->graph_node = (uint64_t)e->id << 32 | index;
	sim_submit_commit(s);
	return CUDA_SUCCESS;
}

/* A graph that was launched with CUPTI fails behind cuptiFinalize (H200, CUPTI 13.0.1, with the injected library). */
static bool fails(CUgraphExec e)
{
	uint32_t now = atomic_load(&cudasim_hook.finalized) + 1;
	bool is = e->traced != 0 && e->traced != now;
	if (atomic_load(&cudasim_hook.client))
		e->traced = now;
	return is;
}

static CUresult launch(CUgraphExec e, CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (!r && !sim_exec_valid(e))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && fails(e))
		r = CUDA_ERROR_LAUNCH_FAILED;
	for (size_t i = 0; !r && i < e->count; i++)
		r = submit_node(s, e, i);
	return r;
}

/* Does nothing: no graph has to be copied to the GPU. */
static CUresult upload(CUgraphExec e, CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_resolve(stream, which, &s);
	return r || sim_exec_valid(e) ? r : CUDA_ERROR_INVALID_VALUE;
}

/* The clone's node for a node of the original. */
static CUgraphNode twin(const struct CUgraph_st *clone, CUgraphNode original)
{
	for (size_t i = 0; i < clone->count; i++)
		if (clone->nodes[i]->origin == original)
			return clone->nodes[i];
	return NULL;
}

static CUresult clone_node(CUgraph to, CUgraphNode from)
{
	CUgraphNode n = sim_graph_node(to, from->type, from->dependencies, from->dependency_count);
	CUresult r = n ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	if (!r && from->child)
		r = sim_graph_clone(&n->child, from->child);
	if (!r)
		r = sim_node_copy(&n->work, &from->work);
	if (r)
		return r;
	n->origin = from;
	for (size_t i = 0; i < n->dependency_count; i++)
		n->dependencies[i] = twin(to, n->dependencies[i]);
	return CUDA_SUCCESS;
}

CUresult sim_graph_clone(CUgraph *out, CUgraph g)
{
	CUgraph c;
	CUresult r = out && sim_graph_valid(g) ? sim_graph_new(&c) : CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	for (size_t i = 0; i < g->count && !r; i++)
		r = clone_node(c, g->nodes[i]);
	if (r)
		sim_graph_destroy(c);
	else
		*out = c;
	return r;
}

DRIVER(cuGraphCreate, (CUgraph * out, unsigned flags), ((void)flags, sim_graph_new(out)))
DRIVER(cuGraphDestroy, (CUgraph g), sim_graph_destroy(g))
DRIVER(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph g, unsigned long long flags),
       ((void)flags, instantiate(out, g)))
DRIVER(cuGraphExecUpdate_v2, (CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *info), update_info(e, g, info))
DRIVER(cuGraphExecDestroy, (CUgraphExec e), destroy_exec(e))
DRIVER_PTSZ(cuGraphLaunch, (CUgraphExec e, CUstream s), launch(e, s, which))
DRIVER_PTSZ(cuGraphUpload, (CUgraphExec e, CUstream s), upload(e, s, which))
