/* What the files of the simulated runtime share. */
#ifndef SIM_RUNTIME_INTERNAL_H
#define SIM_RUNTIME_INTERNAL_H

#include <stdbool.h>

#include "../api/cbid.h"
#include "../include/cudart_sim.h"
#include "../include/hook.h"

extern struct sim_hook *sim_rt_hook; /* NULL until the driver is loaded */

/* driver.c. Loads and initialises the driver at the first call. */
int sim_rt_init(void);
int sim_rt_bind(void); /* makes the primary context of the thread's device current */
int sim_rt_context(int device, CUcontext *out);
int sim_rt_set_device(int device);
int sim_rt_device(void);
int sim_rt_reset(void);
int sim_rt_fail(int error); /* remembers the thread's last error, and answers it */

/* register.c */
int sim_rt_function(const void *host, CUfunction *out);
int sim_rt_prepare_launch(const void *host);

/* An exported function around call. The driver is there before the call is
 * announced, so that a program's very first call is seen as well. */
#define RUNTIME_API(name, params, prepare, call) \
	SIM_EXPORT cudaError_t name params; \
	SIM_EXPORT cudaError_t name params \
	{ \
		struct sim_frame sim_frame_; \
		int sim_error_ = prepare; \
		sim_frame_enter(sim_rt_hook, &sim_frame_, SIM_RUNTIME, CBID_##name); \
		if (!sim_error_) \
			sim_error_ = (call); \
		return sim_frame_exit(sim_rt_hook, &sim_frame_, sim_rt_fail(sim_error_)); \
	}

/* In a context. */
#define RUNTIME(name, params, call) RUNTIME_API(name, params, sim_rt_init(), (sim_error_ = sim_rt_bind()) ? sim_error_ : (call))
/* Launches the kernel of the host stub func. */
#define RUNTIME_LAUNCH(name, params, call) \
	RUNTIME_API(name, params, sim_rt_prepare_launch(func), (sim_error_ = sim_rt_bind()) ? sim_error_ : (call))
/* Needs the driver, but no context. */
#define RUNTIME_BARE(name, params, call) RUNTIME_API(name, params, sim_rt_init(), call)

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
	F(cuGraphDestroy, (CUgraph))

struct sim_driver {
#define F(name, params) CUresult(*name) params;
	SIM_DRIVER_FUNCTIONS(F)
#undef F
};

extern struct sim_driver sim_drv;

#endif
