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

static int add_copy(DEPS, const cudaMemcpy3DParms *p)
{
	CUDA_MEMCPY3D d;
	int r = sim_rt_copy_params(&d, p);
	return r ? r : sim_drv.cuGraphAddMemcpyNode(DEPS_ARGS, &d, NULL);
}

static int add_flat(DEPS, void *dst, const void *src, size_t n)
{
	CUDA_MEMCPY3D d = sim_rt_flat(dst, src, n);
	return sim_drv.cuGraphAddMemcpyNode(DEPS_ARGS, &d, NULL);
}

static int set_kernel(CUgraphExec e, CUgraphNode n, const cudaKernelNodeParams *p)
{
	CUDA_KERNEL_NODE_PARAMS d;
	int r = kernel_params(&d, p);
	if (r)
		return r;
	return e ? sim_drv.cuGraphExecKernelNodeSetParams(e, n, &d) : sim_drv.cuGraphKernelNodeSetParams(n, &d);
}

static int set_copy(CUgraphExec e, CUgraphNode n, const cudaMemcpy3DParms *p)
{
	CUDA_MEMCPY3D d;
	int r = sim_rt_copy_params(&d, p);
	if (r)
		return r;
	return e ? sim_drv.cuGraphExecMemcpyNodeSetParams(e, n, &d, NULL) : sim_drv.cuGraphMemcpyNodeSetParams(n, &d);
}

static int set_flat(CUgraphExec e, CUgraphNode n, void *dst, const void *src, size_t bytes)
{
	CUDA_MEMCPY3D d = sim_rt_flat(dst, src, bytes);
	return e ? sim_drv.cuGraphExecMemcpyNodeSetParams(e, n, &d, NULL) : sim_drv.cuGraphMemcpyNodeSetParams(n, &d);
}

/* cudaGraphNodeParams: laid out as the driver's but for kernels and copies. */
typedef struct {
	int type, reserved0[3];
	union {
		long long reserved1[29];
		cudaKernelNodeParams kernel;
		struct {
			int flags, reserved;
			CUcontext ctx;
			cudaMemcpy3DParms copyParams;
		} memcpy;
	};
	long long reserved2;
} cudaGraphNodeParams;

_Static_assert(sizeof(cudaGraphNodeParams) == sizeof(CUgraphNodeParams), "cudaGraphNodeParams of CUDA 13");

static int any_params(CUgraphNodeParams *out, const cudaGraphNodeParams *p)
{
	if (!p)
		return cudaErrorInvalidValue;
	memcpy(out, p, sizeof *out);
	if (p->type == 0)
		return kernel_params(&out->kernel, &p->kernel);
	return p->type == 1 ? sim_rt_copy_params(&out->memcpy.copyParams, &p->memcpy.copyParams) : 0;
}

static int set_any(CUgraphExec e, CUgraphNode n, const cudaGraphNodeParams *p)
{
	CUgraphNodeParams d;
	int r = any_params(&d, p);
	return r ? r : sim_drv.cuGraphExecNodeSetParams(e, n, &d);
}

static int add_any(DEPS, const void *edges, cudaGraphNodeParams *p)
{
	CUgraphNodeParams d;
	int r = any_params(&d, p);
	if (r)
		return r;
	r = sim_drv.cuGraphAddNode(out, g, deps, edges, count, &d);
	if (p->type > 1)
		memcpy(p, &d, sizeof d); /* an allocation's address */
	return r;
}

RUNTIME(cudaGraphCreate, (cudaGraph_t * g, unsigned flags), sim_drv.cuGraphCreate(g, flags))
RUNTIME(cudaGraphDestroy, (cudaGraph_t g), sim_drv.cuGraphDestroy(g))
RUNTIME(cudaGraphClone, (cudaGraph_t * out, cudaGraph_t g), sim_drv.cuGraphClone(out, g))
RUNTIME(cudaGraphNodeFindInClone, (cudaGraphNode_t * out, cudaGraphNode_t n, cudaGraph_t clone),
	sim_drv.cuGraphNodeFindInClone(out, n, clone))
RUNTIME(cudaGraphDebugDotPrint, (cudaGraph_t g, const char *path, unsigned flags),
	sim_drv.cuGraphDebugDotPrint(g, path, flags))

RUNTIME(cudaGraphAddKernelNode, (DEPS, const cudaKernelNodeParams *p), add_kernel(DEPS_ARGS, p))
RUNTIME(cudaGraphAddMemcpyNode, (DEPS, const cudaMemcpy3DParms *p), add_copy(DEPS_ARGS, p))
RUNTIME(cudaGraphAddMemcpyNode1D, (DEPS, void *dst, const void *src, size_t n, int kind),
	((void)kind, add_flat(DEPS_ARGS, dst, src, n)))
RUNTIME(cudaGraphAddMemsetNode, (DEPS, const cudaMemsetParams *p), sim_drv.cuGraphAddMemsetNode(DEPS_ARGS, p, NULL))
RUNTIME(cudaGraphAddHostNode, (DEPS, const CUDA_HOST_NODE_PARAMS *p), sim_drv.cuGraphAddHostNode(DEPS_ARGS, p))
RUNTIME(cudaGraphAddChildGraphNode, (DEPS, cudaGraph_t child), sim_drv.cuGraphAddChildGraphNode(DEPS_ARGS, child))
RUNTIME(cudaGraphAddEmptyNode, (DEPS), sim_drv.cuGraphAddEmptyNode(DEPS_ARGS))
RUNTIME(cudaGraphAddEventRecordNode, (DEPS, cudaEvent_t e), sim_drv.cuGraphAddEventRecordNode(DEPS_ARGS, e))
RUNTIME(cudaGraphAddEventWaitNode, (DEPS, cudaEvent_t e), sim_drv.cuGraphAddEventWaitNode(DEPS_ARGS, e))
RUNTIME(cudaGraphAddMemAllocNode, (DEPS, CUDA_MEM_ALLOC_NODE_PARAMS *p), sim_drv.cuGraphAddMemAllocNode(DEPS_ARGS, p))
RUNTIME(cudaGraphAddMemFreeNode, (DEPS, void *p), sim_drv.cuGraphAddMemFreeNode(DEPS_ARGS, (CUdeviceptr)p))
RUNTIME(cudaGraphAddNode,
	(cudaGraphNode_t * out, cudaGraph_t g, const cudaGraphNode_t *deps, const void *edges, size_t count,
	 cudaGraphNodeParams *p),
	add_any(DEPS_ARGS, edges, p))
RUNTIME(cudaGraphAddDependencies,
	(cudaGraph_t g, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const void *data, size_t count),
	sim_drv.cuGraphAddDependencies(g, from, to, data, count))
RUNTIME(cudaGraphDestroyNode, (cudaGraphNode_t n), sim_drv.cuGraphDestroyNode(n))
RUNTIME(cudaGraphNodeGetType, (cudaGraphNode_t n, int *type), sim_drv.cuGraphNodeGetType(n, type))
RUNTIME(cudaGraphGetNodes, (cudaGraph_t g, cudaGraphNode_t *out, size_t *n), sim_drv.cuGraphGetNodes(g, out, n))
RUNTIME(cudaGraphGetRootNodes, (cudaGraph_t g, cudaGraphNode_t *out, size_t *n), sim_drv.cuGraphGetRootNodes(g, out, n))
RUNTIME(cudaGraphGetEdges, (cudaGraph_t g, cudaGraphNode_t *from, cudaGraphNode_t *to, void *data, size_t *n),
	sim_drv.cuGraphGetEdges(g, from, to, data, n))
RUNTIME(cudaGraphNodeGetDependencies, (cudaGraphNode_t n, cudaGraphNode_t *out, void *data, size_t *count),
	sim_drv.cuGraphNodeGetDependencies(n, out, data, count))

RUNTIME(cudaGraphKernelNodeSetParams, (cudaGraphNode_t n, const cudaKernelNodeParams *p), set_kernel(NULL, n, p))
RUNTIME(cudaGraphMemcpyNodeSetParams, (cudaGraphNode_t n, const cudaMemcpy3DParms *p), set_copy(NULL, n, p))
RUNTIME(cudaGraphMemcpyNodeSetParams1D, (cudaGraphNode_t n, void *dst, const void *src, size_t bytes, int kind),
	((void)kind, set_flat(NULL, n, dst, src, bytes)))
RUNTIME(cudaGraphMemsetNodeSetParams, (cudaGraphNode_t n, const cudaMemsetParams *p),
	sim_drv.cuGraphMemsetNodeSetParams(n, p))
RUNTIME(cudaGraphHostNodeSetParams, (cudaGraphNode_t n, const CUDA_HOST_NODE_PARAMS *p),
	sim_drv.cuGraphHostNodeSetParams(n, p))
RUNTIME(cudaGraphExecKernelNodeSetParams, (cudaGraphExec_t e, cudaGraphNode_t n, const cudaKernelNodeParams *p),
	set_kernel(e, n, p))
RUNTIME(cudaGraphExecMemcpyNodeSetParams, (cudaGraphExec_t e, cudaGraphNode_t n, const cudaMemcpy3DParms *p),
	set_copy(e, n, p))
RUNTIME(cudaGraphExecMemcpyNodeSetParams1D,
	(cudaGraphExec_t e, cudaGraphNode_t n, void *dst, const void *src, size_t bytes, int kind),
	((void)kind, set_flat(e, n, dst, src, bytes)))
RUNTIME(cudaGraphExecMemsetNodeSetParams, (cudaGraphExec_t e, cudaGraphNode_t n, const cudaMemsetParams *p),
	sim_drv.cuGraphExecMemsetNodeSetParams(e, n, p, NULL))
RUNTIME(cudaGraphExecHostNodeSetParams, (cudaGraphExec_t e, cudaGraphNode_t n, const CUDA_HOST_NODE_PARAMS *p),
	sim_drv.cuGraphExecHostNodeSetParams(e, n, p))
RUNTIME(cudaGraphExecNodeSetParams, (cudaGraphExec_t e, cudaGraphNode_t n, cudaGraphNodeParams *p), set_any(e, n, p))
RUNTIME(cudaDeviceGraphMemTrim, (int device), sim_drv.cuDeviceGraphMemTrim(device))
RUNTIME(cudaGraphNodeSetEnabled, (cudaGraphExec_t e, cudaGraphNode_t n, unsigned on),
	sim_drv.cuGraphNodeSetEnabled(e, n, on))
RUNTIME(cudaGraphNodeGetEnabled, (cudaGraphExec_t e, cudaGraphNode_t n, unsigned *on),
	sim_drv.cuGraphNodeGetEnabled(e, n, on))

RUNTIME(cudaGraphInstantiate, (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long flags),
	sim_drv.cuGraphInstantiateWithFlags(e, g, flags))
RUNTIME(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long flags),
	sim_drv.cuGraphInstantiateWithFlags(e, g, flags))
RUNTIME_PTSZ(cudaGraphInstantiateWithParams, (cudaGraphExec_t * e, cudaGraph_t g, CUDA_GRAPH_INSTANTIATE_PARAMS *p),
	     drv->cuGraphInstantiateWithParams(e, g, p))
RUNTIME(cudaGraphExecUpdate, (cudaGraphExec_t e, cudaGraph_t g, cudaGraphExecUpdateResultInfo *info),
	sim_drv.cuGraphExecUpdate(e, g, info))
RUNTIME(cudaGraphExecGetFlags, (cudaGraphExec_t e, unsigned long long *flags),
	sim_drv.cuGraphExecGetFlags(e, (uint64_t *)flags))
RUNTIME(cudaGraphExecDestroy, (cudaGraphExec_t e), sim_drv.cuGraphExecDestroy(e))
RUNTIME_PTSZ(cudaGraphUpload, (cudaGraphExec_t e, cudaStream_t s), drv->cuGraphUpload(e, s))
RUNTIME_PTSZ(cudaGraphLaunch, (cudaGraphExec_t e, cudaStream_t s), drv->cuGraphLaunch(e, s))
