#include <string.h>

#include "internal.h"

static int kernel_params(CUDA_KERNEL_NODE_PARAMS *out, const cudaKernelNodeParams *p)
{
	memset(out, 0, sizeof *out);
	if (!p)
		return cudaErrorInvalidValue;
	int r = sim_rt_function(p->func, &out->kern);
	if (r)
		return r;
	out->gridDimX = p->gridDim.x, out->gridDimY = p->gridDim.y, out->gridDimZ = p->gridDim.z;
	out->blockDimX = p->blockDim.x, out->blockDimY = p->blockDim.y, out->blockDimZ = p->blockDim.z;
	out->sharedMemBytes = p->sharedMemBytes;
	out->kernelParams = p->kernelParams;
	out->extra = p->extra;
	return 0;
}

#define DEPS cudaGraphNode_t *out, cudaGraph_t g, const cudaGraphNode_t *deps, size_t count
#define DEPS_ARGS out, g, deps, count

static int add_kernel(DEPS, const cudaKernelNodeParams *p)
{
	CUDA_KERNEL_NODE_PARAMS d;
	int r = kernel_params(&d, p);
	return r ? r : sim_drv.cuGraphAddKernelNode(DEPS_ARGS, &d);
}

static int set_kernel(CUgraphExec e, CUgraphNode n, const cudaKernelNodeParams *p)
{
	CUDA_KERNEL_NODE_PARAMS d;
	int r = kernel_params(&d, p);
	return r ? r : sim_drv.cuGraphExecKernelNodeSetParams(e, n, &d);
}

RUNTIME(cudaGraphCreate, (cudaGraph_t * g, unsigned flags), sim_drv.cuGraphCreate(g, flags))
RUNTIME(cudaGraphDestroy, (cudaGraph_t g), sim_drv.cuGraphDestroy(g))

RUNTIME(cudaGraphAddKernelNode, (DEPS, const cudaKernelNodeParams *p), add_kernel(DEPS_ARGS, p))
RUNTIME(cudaGraphAddMemsetNode, (DEPS, const cudaMemsetParams *p), sim_drv.cuGraphAddMemsetNode(DEPS_ARGS, p, NULL))
RUNTIME(cudaGraphAddChildGraphNode, (DEPS, cudaGraph_t child), sim_drv.cuGraphAddChildGraphNode(DEPS_ARGS, child))

RUNTIME(cudaGraphExecKernelNodeSetParams, (cudaGraphExec_t e, cudaGraphNode_t n, const cudaKernelNodeParams *p),
	set_kernel(e, n, p))

RUNTIME(cudaGraphInstantiate, (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long flags),
	sim_drv.cuGraphInstantiateWithFlags(e, g, flags))
RUNTIME(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long flags),
	sim_drv.cuGraphInstantiateWithFlags(e, g, flags))
RUNTIME(cudaGraphExecUpdate, (cudaGraphExec_t e, cudaGraph_t g, cudaGraphExecUpdateResultInfo *info),
	sim_drv.cuGraphExecUpdate(e, g, info))
RUNTIME(cudaGraphExecDestroy, (cudaGraphExec_t e), sim_drv.cuGraphExecDestroy(e))
RUNTIME_PTSZ(cudaGraphUpload, (cudaGraphExec_t e, cudaStream_t s), drv->cuGraphUpload(e, s))
RUNTIME_PTSZ(cudaGraphLaunch, (cudaGraphExec_t e, cudaStream_t s), drv->cuGraphLaunch(e, s))
