/* Earlier spellings with the same arguments, or fewer, which programs
 * built years ago still call. They call the newest spelling. */
#include <string.h>

#include "internal.h"

/* Defined with DRIVER elsewhere. */
#define NEWER(name, params) CUresult name params
NEWER(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice));
NEWER(cuCtxDestroy_v2, (CUcontext));
NEWER(cuCtxPushCurrent_v2, (CUcontext));
NEWER(cuCtxPopCurrent_v2, (CUcontext *));
NEWER(cuEventDestroy_v2, (CUevent));
NEWER(cuStreamDestroy_v2, (CUstream));
NEWER(cuDevicePrimaryCtxRelease_v2, (CUdevice));
NEWER(cuDevicePrimaryCtxReset_v2, (CUdevice));
NEWER(cuDevicePrimaryCtxSetFlags_v2, (CUdevice, unsigned));
NEWER(cuMemHostRegister_v2, (void *, size_t, unsigned));
NEWER(cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcMemHandle, unsigned));
NEWER(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long));
NEWER(cuGraphKernelNodeSetParams_v2, (CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *));
NEWER(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *));
NEWER(cuGraphAddKernelNode_v2, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS *));
NEWER(cuGraphAddDependencies_v2, (CUgraph, const CUgraphNode *, const CUgraphNode *, const void *, size_t));
#define NEWER_STREAM(name, params) NEWER(name, params); NEWER(name##_ptsz, params)
NEWER_STREAM(cuStreamBeginCapture_v2, (CUstream, int));
NEWER_STREAM(cuStreamGetCaptureInfo_v2, (CUstream, int *, uint64_t *, CUgraph *, const CUgraphNode **, size_t *));
NEWER_STREAM(cuStreamWaitValue32_v2, (CUstream, CUdeviceptr, uint32_t, unsigned));
NEWER_STREAM(cuStreamWaitValue64_v2, (CUstream, CUdeviceptr, uint64_t, unsigned));
NEWER_STREAM(cuStreamWriteValue32_v2, (CUstream, CUdeviceptr, uint32_t, unsigned));
NEWER_STREAM(cuStreamWriteValue64_v2, (CUstream, CUdeviceptr, uint64_t, unsigned));
NEWER_STREAM(cuStreamBatchMemOp_v2, (CUstream, unsigned, void *, unsigned));

/* The newer function in the spelling of the older. */
#define OF(name) (which == SIM_PTDS ? name##_ptsz : name)

DRIVER(cuCtxCreate, (CUcontext * ctx, unsigned flags, CUdevice dev), cuCtxCreate_v2(ctx, flags, dev))
DRIVER(cuCtxCreate_v3, (CUcontext * ctx, void *affinity, int count, unsigned flags, CUdevice dev),
       count && affinity ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(ctx, flags, dev))
DRIVER(cuCtxDestroy, (CUcontext ctx), cuCtxDestroy_v2(ctx))
DRIVER(cuCtxPushCurrent, (CUcontext ctx), cuCtxPushCurrent_v2(ctx))
DRIVER(cuCtxPopCurrent, (CUcontext * ctx), cuCtxPopCurrent_v2(ctx))
DRIVER(cuEventDestroy, (CUevent e), cuEventDestroy_v2(e))
DRIVER(cuStreamDestroy, (CUstream s), cuStreamDestroy_v2(s))
DRIVER(cuDevicePrimaryCtxRelease, (CUdevice dev), cuDevicePrimaryCtxRelease_v2(dev))
DRIVER(cuDevicePrimaryCtxReset, (CUdevice dev), cuDevicePrimaryCtxReset_v2(dev))
DRIVER(cuDevicePrimaryCtxSetFlags, (CUdevice dev, unsigned flags), cuDevicePrimaryCtxSetFlags_v2(dev, flags))
DRIVER(cuMemHostRegister, (void *p, size_t n, unsigned flags), cuMemHostRegister_v2(p, n, flags))
DRIVER(cuIpcOpenMemHandle, (CUdeviceptr * p, CUipcMemHandle handle, unsigned flags), cuIpcOpenMemHandle_v2(p, handle, flags))
DRIVER(cuGraphInstantiate, (CUgraphExec * e, CUgraph g, CUgraphNode *error, char *text, size_t size),
       ((void)error, (void)text, (void)size, cuGraphInstantiateWithFlags(e, g, 0)))
DRIVER(cuGraphInstantiate_v2, (CUgraphExec * e, CUgraph g, CUgraphNode *error, char *text, size_t size),
       ((void)error, (void)text, (void)size, cuGraphInstantiateWithFlags(e, g, 0)))
DRIVER(cuGraphAddDependencies, (CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t count),
       cuGraphAddDependencies_v2(g, from, to, NULL, count))
DRIVER_PTSZ(cuStreamBeginCapture, (CUstream s), OF(cuStreamBeginCapture_v2)(s, 0))
DRIVER_PTSZ(cuStreamGetCaptureInfo, (CUstream s, int *status, uint64_t *id),
	    OF(cuStreamGetCaptureInfo_v2)(s, status, id, NULL, NULL, NULL))
DRIVER_PTSZ(cuStreamWaitValue32, (CUstream s, CUdeviceptr p, uint32_t v, unsigned flags),
	    OF(cuStreamWaitValue32_v2)(s, p, v, flags))
DRIVER_PTSZ(cuStreamWaitValue64, (CUstream s, CUdeviceptr p, uint64_t v, unsigned flags),
	    OF(cuStreamWaitValue64_v2)(s, p, v, flags))
DRIVER_PTSZ(cuStreamWriteValue32, (CUstream s, CUdeviceptr p, uint32_t v, unsigned flags),
	    OF(cuStreamWriteValue32_v2)(s, p, v, flags))
DRIVER_PTSZ(cuStreamWriteValue64, (CUstream s, CUdeviceptr p, uint64_t v, unsigned flags),
	    OF(cuStreamWriteValue64_v2)(s, p, v, flags))
DRIVER_PTSZ(cuStreamBatchMemOp, (CUstream s, unsigned count, void *list, unsigned flags),
	    OF(cuStreamBatchMemOp_v2)(s, count, list, flags))

/* Without the last two fields, which name a kernel and a context. */
static CUDA_KERNEL_NODE_PARAMS widen(const void *old)
{
	CUDA_KERNEL_NODE_PARAMS p = {0};
	memcpy(&p, old, offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
	return p;
}

#define WIDE(p, call) ((p) ? (call) : CUDA_ERROR_INVALID_VALUE)
#define WIDENED(p) (&(CUDA_KERNEL_NODE_PARAMS[1]){widen(p)}[0])

DRIVER(cuGraphAddKernelNode, (CUgraphNode * out, CUgraph g, const CUgraphNode *deps, size_t count, const void *p),
       WIDE(p, cuGraphAddKernelNode_v2(out, g, deps, count, WIDENED(p))))
DRIVER(cuGraphKernelNodeSetParams, (CUgraphNode n, const void *p), WIDE(p, cuGraphKernelNodeSetParams_v2(n, WIDENED(p))))
DRIVER(cuGraphExecKernelNodeSetParams, (CUgraphExec e, CUgraphNode n, const void *p),
       WIDE(p, cuGraphExecKernelNodeSetParams_v2(e, n, WIDENED(p))))
