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
int sim_rt_reset(void);
int sim_rt_fail(int error); /* stores the thread's last error and returns it */

/* register.c */
int sim_rt_function(const void *host, CUfunction *out);
int sim_rt_symbol(const void *host, CUdeviceptr *at, size_t *size);
int sim_rt_prepare_launch(const void *host);

/* copy.c */
int sim_rt_copy_params(CUDA_MEMCPY3D *out, const cudaMemcpy3DParms *p);

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
	F(cuDeviceGetCount, (int *)) \
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
	F(cuStreamWaitEvent, (CUstream, CUevent, unsigned)) \
	F(cuEventCreate, (CUevent *, unsigned)) \
	F(cuEventRecord, (CUevent, CUstream)) \
	F(cuEventSynchronize, (CUevent)) \
	F(cuEventElapsedTime, (float *, CUevent, CUevent)) \
	F(cuEventDestroy, (CUevent)) \
	F(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **)) \
	F(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **)) \
	F(cuLaunchCooperativeKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **)) \
	F(cuLaunchHostFunc, (CUstream, CUhostFn, void *)) \
	F(cuStreamBeginCapture, (CUstream, int)) \
	F(cuStreamEndCapture, (CUstream, CUgraph *)) \
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
	F(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream)) \
	F(cuMemPoolCreate, (CUmemoryPool *, const CUmemPoolProps *)) \
	F(cuMemPoolDestroy, (CUmemoryPool)) \
	F(cuMemPoolTrimTo, (CUmemoryPool, size_t)) \
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
	F(cuMemcpyDtoA, (CUarray, size_t, CUdeviceptr, size_t)) \
	F(cuMemcpyHtoA, (CUarray, size_t, const void *, size_t)) \
	F(cuMemsetD2D8, (CUdeviceptr, size_t, unsigned char, size_t, size_t)) \
	F(cuMemsetD2D8Async, (CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream))

#define SIM_DRIVER_CODE(F) \
	F(cuFuncGetAttribute, (int *, int, CUfunction)) \
	F(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, CUfunction, int, size_t)) \
	F(cuLibraryGetGlobal, (CUdeviceptr *, size_t *, CUlibrary, const char *)) \
	F(cuGetProcAddress, (const char *, void **, int, uint64_t, int *))

#define SIM_DRIVER_CONTEXTS(F) \
	F(cuProfilerStart, (void)) \
	F(cuProfilerStop, (void))

#define SIM_DRIVER_STREAMS(F) \

#define SIM_DEPS CUgraphNode *, CUgraph, const CUgraphNode *, size_t
#define SIM_DRIVER_GRAPHS(F) \
	F(cuGraphAddMemsetNode, (SIM_DEPS, const CUDA_MEMSET_NODE_PARAMS *, CUcontext)) \
	F(cuGraphAddChildGraphNode, (SIM_DEPS, CUgraph)) \
	F(cuGraphExecKernelNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)) \
	F(cuGraphExecUpdate, (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *)) \
	F(cuGraphUpload, (CUgraphExec, CUstream)) \

struct sim_driver {
#define F(name, params) CUresult(*name) params;
	SIM_DRIVER_FUNCTIONS(F)
#undef F
};

extern struct sim_driver sim_drv;     /* the default stream is the legacy one */
extern struct sim_driver sim_drv_own; /* the default stream is the thread's own */

#endif
