/* Adding the nodes of a graph, and changing them. */
#include "internal.h"

#define DEPS CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t count
#define DEPS_ARGS out, g, deps, count

static CUresult begin(DEPS, enum sim_node type)
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

static CUresult fill_set(struct sim_work *w, const CUDA_MEMSET_NODE_PARAMS *p)
{
	w->type = SIM_SET;
	return p ? sim_set_describe(&w->set, p) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult add_kernel(DEPS, const CUDA_KERNEL_NODE_PARAMS *p)
{
	CUresult r = begin(DEPS_ARGS, SIM_NODE_KERNEL);
	return r ? r : finish(out, g, fill_kernel(&(*out)->work, p));
}

static CUresult add_set(DEPS, const CUDA_MEMSET_NODE_PARAMS *p)
{
	CUresult r = begin(DEPS_ARGS, SIM_NODE_MEMSET);
	return r ? r : finish(out, g, fill_set(&(*out)->work, p));
}

static CUresult add_child(DEPS, CUgraph child)
{
	CUresult r = begin(DEPS_ARGS, SIM_NODE_GRAPH);
	return r ? r : finish(out, g, sim_graph_clone(&(*out)->child, child));
}

static struct sim_exec_node *in_exec(CUgraphExec e, CUgraphNode n)
{
	for (size_t i = 0; sim_exec_valid(e) && i < e->count; i++)
		if (e->nodes[i]->from == n)
			return e->nodes[i];
	return NULL;
}

/* New content for a kernel of an executable graph. */
static CUresult set_kernel(CUgraphExec e, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p)
{
	struct sim_exec_node *at = in_exec(e, n);
	struct sim_work fresh = {0};
	if (!at || !sim_node_valid(n) || n->type != SIM_NODE_KERNEL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = fill_kernel(&fresh, p);
	if (r)
		return r;
	sim_work_clear(&at->work);
	r = sim_node_copy(&at->work, &fresh);
	sim_work_clear(&fresh);
	return r;
}

DRIVER(cuGraphAddKernelNode_v2, (DEPS, const CUDA_KERNEL_NODE_PARAMS *p), add_kernel(DEPS_ARGS, p))
DRIVER(cuGraphAddMemsetNode, (DEPS, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx), ((void)ctx, add_set(DEPS_ARGS, p)))
DRIVER(cuGraphAddChildGraphNode, (DEPS, CUgraph child), add_child(DEPS_ARGS, child))
DRIVER(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec e, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p),
       set_kernel(e, n, p))
