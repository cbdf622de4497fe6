#include "internal.h"

RUNTIME(cudaStreamCreate, (cudaStream_t * s), sim_drv.cuStreamCreate(s, 0))
RUNTIME(cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned flags), sim_drv.cuStreamCreate(s, flags))
RUNTIME(cudaStreamCreateWithPriority, (cudaStream_t * s, unsigned flags, int priority),
	sim_drv.cuStreamCreateWithPriority(s, flags, priority))
RUNTIME(cudaStreamDestroy, (cudaStream_t s), sim_drv.cuStreamDestroy(s))
RUNTIME_PTSZ(cudaStreamSynchronize, (cudaStream_t s), drv->cuStreamSynchronize(s))
RUNTIME_PTSZ(cudaStreamQuery, (cudaStream_t s), drv->cuStreamQuery(s))
RUNTIME_PTSZ(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags), drv->cuStreamWaitEvent(s, e, flags))
RUNTIME_PTSZ(cudaStreamGetPriority, (cudaStream_t s, int *out), drv->cuStreamGetPriority(s, out))
RUNTIME_PTSZ(cudaStreamGetFlags, (cudaStream_t s, unsigned *out), drv->cuStreamGetFlags(s, out))
RUNTIME_PTSZ(cudaStreamGetId, (cudaStream_t s, unsigned long long *out), drv->cuStreamGetId(s, out))
RUNTIME_PTSZ(cudaStreamGetDevice, (cudaStream_t s, int *out), drv->cuStreamGetDevice(s, out))
RUNTIME_PTSZ(cudaStreamGetAttribute, (cudaStream_t s, int id, void *out), drv->cuStreamGetAttribute(s, id, out))
RUNTIME_PTSZ(cudaStreamSetAttribute, (cudaStream_t s, int id, const void *v), drv->cuStreamSetAttribute(s, id, v))
RUNTIME_PTSZ(cudaStreamCopyAttributes, (cudaStream_t to, cudaStream_t from), drv->cuStreamCopyAttributes(to, from))
RUNTIME_PTSZ(cudaStreamAddCallback, (cudaStream_t s, CUstreamCallback call, void *data, unsigned flags),
	     drv->cuStreamAddCallback(s, call, data, flags))
RUNTIME_PTSZ(cudaStreamAttachMemAsync, (cudaStream_t s, void *p, size_t n, unsigned flags),
	     drv->cuStreamAttachMemAsync(s, (CUdeviceptr)p, n, flags))
RUNTIME_PTSZ(cudaLaunchHostFunc, (cudaStream_t s, void (*fn)(void *), void *data), drv->cuLaunchHostFunc(s, fn, data))
RUNTIME_PTSZ(cudaStreamBeginCapture, (cudaStream_t s, int mode), drv->cuStreamBeginCapture(s, mode))
RUNTIME_PTSZ(cudaStreamBeginCaptureToGraph,
	     (cudaStream_t s, cudaGraph_t g, const cudaGraphNode_t *deps, const void *data, size_t count, int mode),
	     drv->cuStreamBeginCaptureToGraph(s, g, deps, data, count, mode))
RUNTIME_PTSZ(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *g), drv->cuStreamEndCapture(s, g))
RUNTIME_PTSZ(cudaStreamIsCapturing, (cudaStream_t s, int *status), drv->cuStreamIsCapturing(s, status))
RUNTIME_PTSZ(cudaStreamGetCaptureInfo,
	     (cudaStream_t s, int *status, unsigned long long *id, cudaGraph_t *g, const cudaGraphNode_t **deps,
	      const void **data, size_t *count),
	     drv->cuStreamGetCaptureInfo(s, status, (uint64_t *)id, g, deps, data, count))
RUNTIME(cudaThreadExchangeStreamCaptureMode, (int *mode), sim_drv.cuThreadExchangeStreamCaptureMode(mode))

RUNTIME(cudaEventCreate, (cudaEvent_t * e), sim_drv.cuEventCreate(e, 0))
RUNTIME(cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned flags), sim_drv.cuEventCreate(e, flags))
RUNTIME_PTSZ(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), drv->cuEventRecord(e, s))
RUNTIME_PTSZ(cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t s, unsigned flags),
	     drv->cuEventRecordWithFlags(e, s, flags))
RUNTIME(cudaEventSynchronize, (cudaEvent_t e), sim_drv.cuEventSynchronize(e))
RUNTIME(cudaEventQuery, (cudaEvent_t e), sim_drv.cuEventQuery(e))
RUNTIME(cudaEventElapsedTime, (float *ms, cudaEvent_t a, cudaEvent_t b), sim_drv.cuEventElapsedTime(ms, a, b))
RUNTIME(cudaEventDestroy, (cudaEvent_t e), sim_drv.cuEventDestroy(e))
