#include "internal.h"

static int add_kernel(cudaGraphNode_t *out, cudaGraph_t g, const cudaGraphNode_t *deps, size_t count,
		      const cudaKernelNodeParams *p)
{
	CUDA_KERNEL_NODE_PARAMS d = {0};
	if (!p)
		return cudaErrorInvalidValue;
	int r = sim_rt_function(p->func, &d.kern);
	if (r)
		return r;
	d.gridDimX = p->gridDim.x, d.gridDimY = p->gridDim.y, d.gridDimZ = p->gridDim.z;
	d.blockDimX = p->blockDim.x, d.blockDimY = p->blockDim.y, d.blockDimZ = p->blockDim.z;
	d.sharedMemBytes = p->sharedMemBytes;
	d.kernelParams = p->kernelParams;
	d.extra = p->extra;
	return sim_drv.cuGraphAddKernelNode(out, g, deps, count, &d);
}

RUNTIME(cudaStreamBeginCapture, (cudaStream_t s, int mode), sim_drv.cuStreamBeginCapture(s, mode))
RUNTIME(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *g), sim_drv.cuStreamEndCapture(s, g))
RUNTIME(cudaStreamIsCapturing, (cudaStream_t s, int *status), sim_drv.cuStreamIsCapturing(s, status))
RUNTIME(cudaGraphCreate, (cudaGraph_t * g, unsigned flags), sim_drv.cuGraphCreate(g, flags))
RUNTIME(cudaGraphAddKernelNode,
	(cudaGraphNode_t * out, cudaGraph_t g, const cudaGraphNode_t *deps, size_t count, const cudaKernelNodeParams *p),
	add_kernel(out, g, deps, count, p))
RUNTIME(cudaGraphInstantiate, (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long flags),
	sim_drv.cuGraphInstantiateWithFlags(e, g, flags))
RUNTIME(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long flags),
	sim_drv.cuGraphInstantiateWithFlags(e, g, flags))
RUNTIME(cudaGraphLaunch, (cudaGraphExec_t e, cudaStream_t s), sim_drv.cuGraphLaunch(e, s))
RUNTIME(cudaGraphExecDestroy, (cudaGraphExec_t e), sim_drv.cuGraphExecDestroy(e))
RUNTIME(cudaGraphDestroy, (cudaGraph_t g), sim_drv.cuGraphDestroy(g))
