/* Declarations that the files of the simulated runtime share. */
#ifndef SIM_RUNTIME_INTERNAL_H
#define SIM_RUNTIME_INTERNAL_H

#include <stdbool.h>

#include "../api/cbid.h"
#include "../include/cudart_sim.h"
#include "../include/hook.h"

/* A function with a frame of its own, between an exported one and the driver. */
#define INTERNAL static __attribute__((noinline))

extern struct sim_hook *sim_rt_hook; /* NULL until the driver is loaded */

/* driver.c. Loads and initialises the driver at the first call. */
int sim_rt_init(void);
int sim_rt_bind(void); /* makes the primary context of the thread's device current */
int sim_rt_context(int device, CUcontext *out);
int sim_rt_set_device(int device);
int sim_rt_device(void);
int sim_rt_reset(void);
int sim_rt_fail(int error); /* stores the thread's last error and returns it */

/* register.c */
int sim_rt_function(const void *host, CUfunction *out);
int sim_rt_symbol(const void *host, CUdeviceptr *at, size_t *size);
int sim_rt_prepare_launch(const void *host);

/* copy.c */
int sim_rt_copy_params(CUDA_MEMCPY3D *out, const cudaMemcpy3DParms *p);
CUDA_MEMCPY3D sim_rt_flat(void *dst, const void *src, size_t n);

/* An exported function around call, which finds the driver's functions in *drv.
 * The driver is loaded before the call is announced, so that a program's very
 * first call is recorded too. */
#define RUNTIME_FROM(table, name, params, prepare, call) \
	SIM_EXPORT cudaError_t name params; \
	SIM_EXPORT cudaError_t name params \
	{ \
		const struct sim_driver *const drv = &(table); \
		(void)drv; \
		struct sim_frame sim_frame_; \
		int sim_error_ = prepare; \
		sim_frame_enter(sim_rt_hook, &sim_frame_, SIM_RUNTIME, CBID_##name); \
		if (!sim_error_) \
			sim_error_ = (call); \
		return sim_frame_exit(sim_rt_hook, &sim_frame_, sim_rt_fail(sim_error_)); \
	}

#define BOUND(call) ((sim_error_ = sim_rt_bind()) ? sim_error_ : (call))

/* In a context. */
#define RUNTIME(name, params, call) RUNTIME_FROM(sim_drv, name, params, sim_rt_init(), BOUND(call))
/* The same in both spellings: the default stream is the legacy one, or the thread's own. */
#define RUNTIME_PTSZ(name, params, call) \
	RUNTIME(name, params, call) RUNTIME_FROM(sim_drv_own, name##_ptsz, params, sim_rt_init(), BOUND(call))
#define RUNTIME_PTDS(name, params, call) \
	RUNTIME(name, params, call) RUNTIME_FROM(sim_drv_own, name##_ptds, params, sim_rt_init(), BOUND(call))
/* Launches the kernel of the host stub func. */
#define RUNTIME_LAUNCH_PTSZ(name, params, call) \
	RUNTIME_FROM(sim_drv, name, params, sim_rt_prepare_launch(func), BOUND(call)) \
	RUNTIME_FROM(sim_drv_own, name##_ptsz, params, sim_rt_prepare_launch(func), BOUND(call))
/* Needs the driver, but no context. */
#define RUNTIME_BARE(name, params, call) RUNTIME_FROM(sim_drv, name, params, sim_rt_init(), call)

/* The driver functions in use, as cuGetProcAddress names them. */
#define SIM_DRIVER_FUNCTIONS(F) \
	F(cuInit, (unsigned)) \
	F(cuDriverGetVersion, (int *)) \
	F(cuDeviceGetCount, (int *)) \
	F(cuDeviceGetName, (char *, int, CUdevice)) \
	F(cuDeviceGetAttribute, (int *, int, CUdevice)) \
	F(cuDeviceGetUuid, (CUuuid *, CUdevice)) \
	F(cuDeviceTotalMem, (size_t *, CUdevice)) \
	F(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
	F(cuDevicePrimaryCtxReset, (CUdevice)) \
	F(cuCtxSetCurrent, (CUcontext)) \
	F(cuCtxSynchronize, (void)) \
	F(cuLibraryLoadData, (CUlibrary *, const void *, void *, void **, unsigned, void *, void **, unsigned)) \
	F(cuLibraryGetKernel, (CUkernel *, CUlibrary, const char *)) \
	F(cuMemAlloc, (CUdeviceptr *, size_t)) \
	F(cuMemFree, (CUdeviceptr)) \
	F(cuMemAllocHost, (void **, size_t)) \
	F(cuMemFreeHost, (void *)) \
	F(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream)) \
	F(cuMemFreeAsync, (CUdeviceptr, CUstream)) \
	F(cuMemGetInfo, (size_t *, size_t *)) \
	F(cuMemcpy, (CUdeviceptr, CUdeviceptr, size_t)) \
	F(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	F(cuMemcpyHtoD, (CUdeviceptr, const void *, size_t)) \
	F(cuMemcpyHtoDAsync, (CUdeviceptr, const void *, size_t, CUstream)) \
	F(cuMemcpyDtoH, (void *, CUdeviceptr, size_t)) \
	F(cuMemcpyDtoHAsync, (void *, CUdeviceptr, size_t, CUstream)) \
	F(cuMemcpyDtoD, (CUdeviceptr, CUdeviceptr, size_t)) \
	F(cuMemcpyDtoDAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	F(cuMemcpy2D, (const CUDA_MEMCPY2D *)) \
	F(cuMemcpy2DAsync, (const CUDA_MEMCPY2D *, CUstream)) \
	F(cuMemcpyPeer, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t)) \
	F(cuMemcpyPeerAsync, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
	F(cuMemsetD8, (CUdeviceptr, unsigned char, size_t)) \
	F(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream)) \
	F(cuStreamCreate, (CUstream *, unsigned)) \
	F(cuStreamCreateWithPriority, (CUstream *, unsigned, int)) \
	F(cuStreamDestroy, (CUstream)) \
	F(cuStreamSynchronize, (CUstream)) \
	F(cuStreamQuery, (CUstream)) \
	F(cuStreamWaitEvent, (CUstream, CUevent, unsigned)) \
	F(cuEventCreate, (CUevent *, unsigned)) \
	F(cuEventRecord, (CUevent, CUstream)) \
	F(cuEventSynchronize, (CUevent)) \
	F(cuEventQuery, (CUevent)) \
	F(cuEventElapsedTime, (float *, CUevent, CUevent)) \
	F(cuEventDestroy, (CUevent)) \
	F(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **)) \
	F(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **)) \
	F(cuLaunchCooperativeKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **)) \
	F(cuLaunchHostFunc, (CUstream, CUhostFn, void *)) \
	F(cuStreamBeginCapture, (CUstream, int)) \
	F(cuStreamEndCapture, (CUstream, CUgraph *)) \
	F(cuStreamIsCapturing, (CUstream, int *)) \
	F(cuGraphCreate, (CUgraph *, unsigned)) \
	F(cuGraphAddKernelNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS *)) \
	F(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) \
	F(cuGraphLaunch, (CUgraphExec, CUstream)) \
	F(cuGraphExecDestroy, (CUgraphExec)) \
	F(cuGraphDestroy, (CUgraph)) \
	SIM_DRIVER_MEMORY(F) \
	SIM_DRIVER_COPIES(F) \
	SIM_DRIVER_CODE(F) \
	SIM_DRIVER_CONTEXTS(F) \
	SIM_DRIVER_STREAMS(F) \
	SIM_DRIVER_GRAPHS(F)

#define SIM_DRIVER_MEMORY(F) \
	F(cuMemAllocPitch, (CUdeviceptr *, size_t *, size_t, size_t, unsigned)) \
	F(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned)) \
	F(cuMemHostAlloc, (void **, size_t, unsigned)) \
	F(cuMemHostRegister, (void *, size_t, unsigned)) \
	F(cuMemHostUnregister, (void *)) \
	F(cuMemHostGetDevicePointer, (CUdeviceptr *, void *, unsigned)) \
	F(cuMemHostGetFlags, (unsigned *, void *)) \
	F(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream)) \
	F(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice)) \
	F(cuDeviceGetMemPool, (CUmemoryPool *, CUdevice)) \
	F(cuDeviceSetMemPool, (CUdevice, CUmemoryPool)) \
	F(cuMemPoolCreate, (CUmemoryPool *, const CUmemPoolProps *)) \
	F(cuMemPoolDestroy, (CUmemoryPool)) \
	F(cuMemPoolTrimTo, (CUmemoryPool, size_t)) \
	F(cuMemPoolGetAttribute, (CUmemoryPool, int, void *)) \
	F(cuMemPoolSetAttribute, (CUmemoryPool, int, void *)) \
	F(cuMemPoolGetAccess, (int *, CUmemoryPool, CUmemLocation *)) \
	F(cuMemPoolSetAccess, (CUmemoryPool, const CUmemAccessDesc *, size_t)) \
	F(cuMemPrefetchAsync, (CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream)) \
	F(cuMemPrefetchBatchAsync, \
	  (CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long, CUstream)) \
	F(cuMemRangeGetAttribute, (void *, size_t, int, CUdeviceptr, size_t)) \
	F(cuDeviceGraphMemTrim, (CUdevice)) \
	F(cuMemAdvise, (CUdeviceptr, size_t, int, CUmemLocation)) \
	F(cuPointerGetAttributes, (unsigned, int *, void **, CUdeviceptr)) \
	F(cuIpcGetMemHandle, (CUipcMemHandle *, CUdeviceptr)) \
	F(cuIpcOpenMemHandle, (CUdeviceptr *, CUipcMemHandle, unsigned)) \
	F(cuIpcCloseMemHandle, (CUdeviceptr)) \
	F(cuArray3DCreate, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *)) \
	F(cuArray3DGetDescriptor, (CUDA_ARRAY3D_DESCRIPTOR *, CUarray)) \
	F(cuArrayDestroy, (CUarray))

#define SIM_DRIVER_COPIES(F) \
	F(cuMemcpy3D, (const CUDA_MEMCPY3D *)) \
	F(cuMemcpy3DAsync, (const CUDA_MEMCPY3D *, CUstream)) \
	F(cuMemcpy3DPeer, (const CUDA_MEMCPY3D *)) \
	F(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D *, CUstream)) \
	F(cuMemcpyDtoA, (CUarray, size_t, CUdeviceptr, size_t)) \
	F(cuMemcpyAtoD, (CUdeviceptr, CUarray, size_t, size_t)) \
	F(cuMemcpyHtoA, (CUarray, size_t, const void *, size_t)) \
	F(cuMemcpyHtoAAsync, (CUarray, size_t, const void *, size_t, CUstream)) \
	F(cuMemcpyAtoH, (void *, CUarray, size_t, size_t)) \
	F(cuMemcpyAtoHAsync, (void *, CUarray, size_t, size_t, CUstream)) \
	F(cuMemcpyAtoA, (CUarray, size_t, CUarray, size_t, size_t)) \
	F(cuMemcpyBatchAsync, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, CUstream)) \
	F(cuMemcpy3DBatchAsync, (size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream)) \
	F(cuMemsetD2D8, (CUdeviceptr, size_t, unsigned char, size_t, size_t)) \
	F(cuMemsetD2D8Async, (CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream))

#define SIM_DRIVER_CODE(F) \
	F(cuFuncGetAttribute, (int *, int, CUfunction)) \
	F(cuFuncSetAttribute, (CUfunction, int, int)) \
	F(cuFuncSetCacheConfig, (CUfunction, int)) \
	F(cuFuncGetName, (const char **, CUfunction)) \
	F(cuFuncGetParamInfo, (CUfunction, size_t, size_t *, size_t *)) \
	F(cuKernelSetAttribute, (int, int, CUkernel, CUdevice)) \
	F(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, CUfunction, int, size_t)) \
	F(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *, CUfunction, int, size_t, unsigned)) \
	F(cuOccupancyAvailableDynamicSMemPerBlock, (size_t *, CUfunction, int, int)) \
	F(cuOccupancyMaxPotentialClusterSize, (int *, CUfunction, const CUlaunchConfig *)) \
	F(cuOccupancyMaxActiveClusters, (int *, CUfunction, const CUlaunchConfig *)) \
	F(cuLibraryLoadFromFile, (CUlibrary *, const char *, void *, void **, unsigned, void *, void **, unsigned)) \
	F(cuLibraryUnload, (CUlibrary)) \
	F(cuLibraryGetGlobal, (CUdeviceptr *, size_t *, CUlibrary, const char *)) \
	F(cuLibraryGetManaged, (CUdeviceptr *, size_t *, CUlibrary, const char *)) \
	F(cuLibraryGetKernelCount, (unsigned *, CUlibrary)) \
	F(cuLibraryEnumerateKernels, (CUkernel *, unsigned, CUlibrary)) \
	F(cuGetProcAddress, (const char *, void **, int, uint64_t, int *))

#define SIM_DRIVER_CONTEXTS(F) \
	F(cuCtxGetLimit, (size_t *, int)) \
	F(cuCtxSetLimit, (int, size_t)) \
	F(cuCtxGetCacheConfig, (int *)) \
	F(cuCtxSetCacheConfig, (int)) \
	F(cuCtxGetSharedMemConfig, (int *)) \
	F(cuCtxSetSharedMemConfig, (int)) \
	F(cuCtxGetStreamPriorityRange, (int *, int *)) \
	F(cuCtxResetPersistingL2Cache, (void)) \
	F(cuDevicePrimaryCtxSetFlags, (CUdevice, unsigned)) \
	F(cuDevicePrimaryCtxGetState, (CUdevice, unsigned *, int *)) \
	F(cuDeviceGetPCIBusId, (char *, int, CUdevice)) \
	F(cuDeviceGetByPCIBusId, (CUdevice *, const char *)) \
	F(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice)) \
	F(cuDeviceGetP2PAttribute, (int *, int, CUdevice, CUdevice)) \
	F(cuCtxEnablePeerAccess, (CUcontext, unsigned)) \
	F(cuCtxDisablePeerAccess, (CUcontext)) \
	F(cuProfilerStart, (void)) \
	F(cuProfilerStop, (void))

#define SIM_DRIVER_STREAMS(F) \
	F(cuStreamGetPriority, (CUstream, int *)) \
	F(cuStreamGetFlags, (CUstream, unsigned *)) \
	F(cuStreamGetId, (CUstream, unsigned long long *)) \
	F(cuStreamGetDevice, (CUstream, CUdevice *)) \
	F(cuStreamGetAttribute, (CUstream, int, void *)) \
	F(cuStreamSetAttribute, (CUstream, int, const void *)) \
	F(cuStreamCopyAttributes, (CUstream, CUstream)) \
	F(cuStreamAddCallback, (CUstream, CUstreamCallback, void *, unsigned)) \
	F(cuStreamAttachMemAsync, (CUstream, CUdeviceptr, size_t, unsigned)) \
	F(cuEventRecordWithFlags, (CUevent, CUstream, unsigned)) \
	F(cuStreamBeginCaptureToGraph, (CUstream, CUgraph, const CUgraphNode *, const void *, size_t, int)) \
	F(cuStreamGetCaptureInfo, (CUstream, int *, uint64_t *, CUgraph *, const CUgraphNode **, const void **, size_t *)) \
	F(cuThreadExchangeStreamCaptureMode, (int *))

#define SIM_DEPS CUgraphNode *, CUgraph, const CUgraphNode *, size_t
#define SIM_DRIVER_GRAPHS(F) \
	F(cuGraphAddMemcpyNode, (SIM_DEPS, const CUDA_MEMCPY3D *, CUcontext)) \
	F(cuGraphAddMemsetNode, (SIM_DEPS, const CUDA_MEMSET_NODE_PARAMS *, CUcontext)) \
	F(cuGraphAddHostNode, (SIM_DEPS, const CUDA_HOST_NODE_PARAMS *)) \
	F(cuGraphAddChildGraphNode, (SIM_DEPS, CUgraph)) \
	F(cuGraphAddEmptyNode, (SIM_DEPS)) \
	F(cuGraphAddEventRecordNode, (SIM_DEPS, CUevent)) \
	F(cuGraphAddEventWaitNode, (SIM_DEPS, CUevent)) \
	F(cuGraphAddMemAllocNode, (SIM_DEPS, CUDA_MEM_ALLOC_NODE_PARAMS *)) \
	F(cuGraphAddMemFreeNode, (SIM_DEPS, CUdeviceptr)) \
	F(cuGraphAddNode, (CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, CUgraphNodeParams *)) \
	F(cuGraphKernelNodeSetParams, (CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)) \
	F(cuGraphMemsetNodeSetParams, (CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *)) \
	F(cuGraphMemcpyNodeSetParams, (CUgraphNode, const CUDA_MEMCPY3D *)) \
	F(cuGraphHostNodeSetParams, (CUgraphNode, const CUDA_HOST_NODE_PARAMS *)) \
	F(cuGraphExecKernelNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)) \
	F(cuGraphExecMemcpyNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D *, CUcontext)) \
	F(cuGraphExecMemsetNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *, CUcontext)) \
	F(cuGraphExecHostNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_HOST_NODE_PARAMS *)) \
	F(cuGraphNodeSetEnabled, (CUgraphExec, CUgraphNode, unsigned)) \
	F(cuGraphNodeGetEnabled, (CUgraphExec, CUgraphNode, unsigned *)) \
	F(cuGraphNodeGetType, (CUgraphNode, int *)) \
	F(cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *)) \
	F(cuGraphGetRootNodes, (CUgraph, CUgraphNode *, size_t *)) \
	F(cuGraphGetEdges, (CUgraph, CUgraphNode *, CUgraphNode *, void *, size_t *)) \
	F(cuGraphNodeGetDependencies, (CUgraphNode, CUgraphNode *, void *, size_t *)) \
	F(cuGraphAddDependencies, (CUgraph, const CUgraphNode *, const CUgraphNode *, const void *, size_t)) \
	F(cuGraphDestroyNode, (CUgraphNode)) \
	F(cuGraphClone, (CUgraph *, CUgraph)) \
	F(cuGraphNodeFindInClone, (CUgraphNode *, CUgraphNode, CUgraph)) \
	F(cuGraphInstantiateWithParams, (CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *)) \
	F(cuGraphExecUpdate, (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *)) \
	F(cuGraphExecGetFlags, (CUgraphExec, uint64_t *)) \
	F(cuGraphExecNodeSetParams, (CUgraphExec, CUgraphNode, CUgraphNodeParams *)) \
	F(cuGraphUpload, (CUgraphExec, CUstream)) \
	F(cuGraphDebugDotPrint, (CUgraph, const char *, unsigned))

struct sim_driver {
#define F(name, params) CUresult(*name) params;
	SIM_DRIVER_FUNCTIONS(F)
#undef F
};

extern struct sim_driver sim_drv;     /* the default stream is the legacy one */
extern struct sim_driver sim_drv_own; /* the default stream is the thread's own */

#endif
