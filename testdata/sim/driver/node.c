/* Adding, querying and changing the nodes of a graph. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static CUresult begin(CUgraphNode *out, CUgraph g, enum sim_node type, const CUgraphNode *deps, size_t count)
{
	if (!out || !sim_graph_valid(g) || (count && !deps))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (!sim_node_valid(deps[i]) || deps[i]->graph != g)
			return CUDA_ERROR_INVALID_VALUE;
	*out = sim_graph_node(g, type, deps, count);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Removes a node that could not be filled. */
static CUresult finish(CUgraphNode *out, CUgraph g, CUresult r)
{
	if (r) {
		sim_graph_pop(g);
		*out = NULL;
	}
	return r;
}

static CUresult fill_kernel(struct sim_work *w, const CUDA_KERNEL_NODE_PARAMS *p)
{
	CUfunction f = p ? (p->func ? p->func : p->kern) : NULL;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_launch l = {{p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ},
			       {0, 0, 0}, p->sharedMemBytes};
	CUresult r = sim_launch_check(f, &l);
	w->type = SIM_KERNEL;
	return r ? r : sim_kernel_fill(&w->kernel, f->kernel, &l, p->kernelParams, p->extra);
}

static CUresult fill_copy(struct sim_work *w, const CUDA_MEMCPY3D *p)
{
	w->type = SIM_COPY;
	return sim_copy_describe(&w->copy, p);
}

static CUresult fill_set(struct sim_work *w, const CUDA_MEMSET_NODE_PARAMS *p)
{
	w->type = SIM_SET;
	return p ? sim_set_describe(&w->set, p) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fill_host(struct sim_work *w, const CUDA_HOST_NODE_PARAMS *p)
{
	if (!p || !p->fn)
		return CUDA_ERROR_INVALID_VALUE;
	w->type = SIM_HOST;
	w->host.fn = p->fn;
	w->host.data = p->userData;
	return CUDA_SUCCESS;
}

static CUresult fill_event(struct sim_work *w, CUevent e, bool record)
{
	w->type = record ? SIM_EVENT : SIM_WAIT;
	w->event.event = e;
	return sim_event_valid(e) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult fill_alloc(struct sim_work *w, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = sim_memory_new(p->bytesize, SIM_DEVICE_MEMORY, NULL, 0, (void **)&p->dptr);
	w->type = SIM_FREE;
	w->free = (void *)p->dptr;
	return r;
}

static CUresult fill_child(CUgraphNode n, CUgraph child)
{
	return sim_graph_clone(&n->child, child);
}

/* Fills the part of a node that depends on its type. */
static CUresult fill(CUgraphNode n, CUgraphNodeParams *p)
{
	switch (n->type) {
	case SIM_NODE_KERNEL:
		return fill_kernel(&n->work, &p->kernel);
	case SIM_NODE_MEMCPY:
		return fill_copy(&n->work, &p->memcpy.copyParams);
	case SIM_NODE_MEMSET:
		return fill_set(&n->work, &p->memset);
	case SIM_NODE_HOST:
		return fill_host(&n->work, &p->host);
	case SIM_NODE_GRAPH:
		return fill_child(n, p->graph);
	case SIM_NODE_EMPTY:
		return CUDA_SUCCESS;
	case SIM_NODE_WAIT:
	case SIM_NODE_RECORD:
		return fill_event(&n->work, p->event, n->type == SIM_NODE_RECORD);
	case SIM_NODE_ALLOC:
		return fill_alloc(&n->work, &p->alloc);
	case SIM_NODE_FREE:
		n->work.free = (void *)p->free;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

static CUresult add(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t count, CUgraphNodeParams *p)
{
	CUresult r = p ? begin(out, g, (enum sim_node)p->type, deps, count) : CUDA_ERROR_INVALID_VALUE;
	return r ? r : finish(out, g, fill(*out, p));
}

/* Passes one field of the params. */
#define ADD_AS(node_type, field, value) \
	(p ? add(out, g, deps, count, &(CUgraphNodeParams){.type = (node_type), .field = (value)}) : CUDA_ERROR_INVALID_VALUE)
#define DEPS CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t count

static CUresult add_alloc(DEPS, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	CUgraphNodeParams all = {.type = SIM_NODE_ALLOC};
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	all.alloc = *p;
	CUresult r = add(out, g, deps, count, &all);
	p->dptr = all.alloc.dptr;
	return r;
}

/* New content for a node of a graph, or of an executable one. */
static CUresult change(struct sim_work *at, enum sim_node type, const CUgraphNodeParams *p)
{
	struct CUgraphNode_st fresh = {.type = type};
	CUgraphNodeParams copy = *p;
	if ((int)type != p->type)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = fill(&fresh, &copy);
	if (r)
		return r;
	sim_work_clear(at);
	r = sim_node_copy(at, &fresh.work);
	sim_work_clear(&fresh.work);
	return r;
}

static bool changeable(int type)
{
	return type == SIM_NODE_KERNEL || type == SIM_NODE_MEMCPY || type == SIM_NODE_MEMSET || type == SIM_NODE_HOST ||
	       type == SIM_NODE_WAIT || type == SIM_NODE_RECORD;
}

static CUresult set(CUgraphNode n, const CUgraphNodeParams *p)
{
	if (!sim_node_valid(n) || !p || !changeable(p->type))
		return CUDA_ERROR_INVALID_VALUE;
	return change(&n->work, n->type, p);
}

static struct sim_exec_node *in_exec(CUgraphExec e, CUgraphNode n)
{
	for (size_t i = 0; sim_exec_valid(e) && i < e->count; i++)
		if (e->nodes[i]->from == n)
			return e->nodes[i];
	return NULL;
}

static CUresult set_exec(CUgraphExec e, CUgraphNode n, const CUgraphNodeParams *p)
{
	struct sim_exec_node *at = in_exec(e, n);
	if (!at || !sim_node_valid(n) || !p || !changeable(p->type))
		return CUDA_ERROR_INVALID_VALUE;
	return change(&at->work, n->type, p);
}

#define PARAMS(node_type, field) (&(CUgraphNodeParams){.type = (node_type), .field = *p})
#define SET(type, field) (p ? set(n, PARAMS(type, field)) : CUDA_ERROR_INVALID_VALUE)
#define SET_EXEC(type, field) (p ? set_exec(e, n, PARAMS(type, field)) : CUDA_ERROR_INVALID_VALUE)

static CUresult set_enabled(CUgraphExec e, CUgraphNode n, unsigned on)
{
	struct sim_exec_node *at = in_exec(e, n);
	if (!at)
		return CUDA_ERROR_INVALID_VALUE;
	at->off = !on;
	return CUDA_SUCCESS;
}

static CUresult get_enabled(CUgraphExec e, CUgraphNode n, unsigned *on)
{
	struct sim_exec_node *at = in_exec(e, n);
	if (!at || !on)
		return CUDA_ERROR_INVALID_VALUE;
	*on = !at->off;
	return CUDA_SUCCESS;
}

static CUresult type_of(CUgraphNode n, int *out)
{
	if (!out || !sim_node_valid(n))
		return CUDA_ERROR_INVALID_VALUE;
	*out = n->type;
	return CUDA_SUCCESS;
}

/* Without out returns only the number; nodes that do not fit are left out. */
static CUresult list(CUgraph g, CUgraphNode *out, size_t *count, bool roots)
{
	size_t found = 0;
	if (!count || !sim_graph_valid(g))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < g->count; i++) {
		if (roots && g->nodes[i]->dependency_count)
			continue;
		if (out && found < *count)
			out[found] = g->nodes[i];
		found++;
	}
	*count = found;
	return CUDA_SUCCESS;
}

static CUresult edges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
	size_t found = 0;
	if (!count || !sim_graph_valid(g))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < g->count; i++)
		for (size_t k = 0; k < g->nodes[i]->dependency_count; k++, found++)
			if (from && to && found < *count) {
				from[found] = g->nodes[i]->dependencies[k];
				to[found] = g->nodes[i];
			}
	*count = found;
	return CUDA_SUCCESS;
}

static CUresult dependencies(CUgraphNode n, CUgraphNode *out, size_t *count)
{
	if (!count || !sim_node_valid(n))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; out && i < n->dependency_count && i < *count; i++)
		out[i] = n->dependencies[i];
	*count = n->dependency_count;
	return CUDA_SUCCESS;
}

/* A later node may come to depend on an earlier one; the order stays. */
static CUresult add_edges(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
	if (!sim_graph_valid(g) || (count && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (!sim_node_valid(from[i]) || !sim_node_valid(to[i]))
			return CUDA_ERROR_INVALID_VALUE;
		CUgraphNode *bigger = realloc(to[i]->dependencies, (to[i]->dependency_count + 1) * sizeof(CUgraphNode));
		if (!bigger)
			return CUDA_ERROR_OUT_OF_MEMORY;
		to[i]->dependencies = bigger;
		bigger[to[i]->dependency_count++] = from[i];
	}
	return CUDA_SUCCESS;
}

DRIVER(cuGraphAddKernelNode_v2, (DEPS, const CUDA_KERNEL_NODE_PARAMS *p), ADD_AS(SIM_NODE_KERNEL, kernel, *p))
DRIVER(cuGraphAddMemcpyNode, (DEPS, const CUDA_MEMCPY3D *p, CUcontext ctx),
       ((void)ctx, ADD_AS(SIM_NODE_MEMCPY, memcpy.copyParams, *p)))
DRIVER(cuGraphAddMemsetNode, (DEPS, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx),
       ((void)ctx, ADD_AS(SIM_NODE_MEMSET, memset, *p)))
DRIVER(cuGraphAddHostNode, (DEPS, const CUDA_HOST_NODE_PARAMS *p), ADD_AS(SIM_NODE_HOST, host, *p))
DRIVER(cuGraphAddChildGraphNode, (DEPS, CUgraph p), ADD_AS(SIM_NODE_GRAPH, graph, p))
DRIVER(cuGraphAddEmptyNode, (DEPS), add(out, g, deps, count, &(CUgraphNodeParams){.type = SIM_NODE_EMPTY}))
DRIVER(cuGraphAddEventRecordNode, (DEPS, CUevent p), ADD_AS(SIM_NODE_RECORD, event, p))
DRIVER(cuGraphAddEventWaitNode, (DEPS, CUevent p), ADD_AS(SIM_NODE_WAIT, event, p))
DRIVER(cuGraphAddMemAllocNode, (DEPS, CUDA_MEM_ALLOC_NODE_PARAMS *p), add_alloc(out, g, deps, count, p))
DRIVER(cuGraphAddMemFreeNode, (DEPS, CUdeviceptr p), ADD_AS(SIM_NODE_FREE, free, p))
DRIVER(cuGraphAddNode, (DEPS, CUgraphNodeParams *p), add(out, g, deps, count, p))
DRIVER(cuGraphAddNode_v2,
       (CUgraphNode * out, CUgraph g, const CUgraphNode *deps, const void *edge, size_t count, CUgraphNodeParams *p),
       ((void)edge, add(out, g, deps, count, p)))
DRIVER(cuGraphNodeSetParams, (CUgraphNode n, CUgraphNodeParams *p), set(n, p))
DRIVER(cuGraphKernelNodeSetParams_v2, (CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p),
       SET(SIM_NODE_KERNEL, kernel))
DRIVER(cuGraphMemcpyNodeSetParams, (CUgraphNode n, const CUDA_MEMCPY3D *p),
       SET(SIM_NODE_MEMCPY, memcpy.copyParams))
DRIVER(cuGraphMemsetNodeSetParams, (CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p),
       SET(SIM_NODE_MEMSET, memset))
DRIVER(cuGraphHostNodeSetParams, (CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p), SET(SIM_NODE_HOST, host))
DRIVER(cuGraphExecNodeSetParams, (CUgraphExec e, CUgraphNode n, CUgraphNodeParams *p), set_exec(e, n, p))
DRIVER(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec e, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p),
       SET_EXEC(SIM_NODE_KERNEL, kernel))
DRIVER(cuGraphExecMemcpyNodeSetParams, (CUgraphExec e, CUgraphNode n, const CUDA_MEMCPY3D *p, CUcontext ctx),
       ((void)ctx, SET_EXEC(SIM_NODE_MEMCPY, memcpy.copyParams)))
DRIVER(cuGraphExecMemsetNodeSetParams, (CUgraphExec e, CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx),
       ((void)ctx, SET_EXEC(SIM_NODE_MEMSET, memset)))
DRIVER(cuGraphExecHostNodeSetParams, (CUgraphExec e, CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p),
       SET_EXEC(SIM_NODE_HOST, host))
DRIVER(cuGraphNodeSetEnabled, (CUgraphExec e, CUgraphNode n, unsigned on), set_enabled(e, n, on))
DRIVER(cuGraphNodeGetEnabled, (CUgraphExec e, CUgraphNode n, unsigned *on), get_enabled(e, n, on))
DRIVER(cuGraphNodeGetType, (CUgraphNode n, int *type), type_of(n, type))
DRIVER(cuGraphGetNodes, (CUgraph g, CUgraphNode *out, size_t *count), list(g, out, count, false))
DRIVER(cuGraphGetRootNodes, (CUgraph g, CUgraphNode *out, size_t *count), list(g, out, count, true))
DRIVER(cuGraphGetEdges_v2, (CUgraph g, CUgraphNode *from, CUgraphNode *to, void *data, size_t *count),
       ((void)data, edges(g, from, to, count)))
DRIVER(cuGraphNodeGetDependencies_v2, (CUgraphNode n, CUgraphNode *out, void *data, size_t *count),
       ((void)data, dependencies(n, out, count)))
DRIVER(cuGraphAddDependencies_v2,
       (CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const void *data, size_t count),
       ((void)data, add_edges(g, from, to, count)))
