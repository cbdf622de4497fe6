#include "internal.h"

RUNTIME(cudaStreamCreate, (cudaStream_t * s), sim_drv.cuStreamCreate(s, 0))
RUNTIME(cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned flags), sim_drv.cuStreamCreate(s, flags))
RUNTIME(cudaStreamCreateWithPriority, (cudaStream_t * s, unsigned flags, int priority),
	sim_drv.cuStreamCreateWithPriority(s, flags, priority))
RUNTIME(cudaStreamDestroy, (cudaStream_t s), sim_drv.cuStreamDestroy(s))
RUNTIME_PTSZ(cudaStreamSynchronize, (cudaStream_t s), drv->cuStreamSynchronize(s))
RUNTIME_PTSZ(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags), drv->cuStreamWaitEvent(s, e, flags))
RUNTIME_PTSZ(cudaLaunchHostFunc, (cudaStream_t s, void (*fn)(void *), void *data), drv->cuLaunchHostFunc(s, fn, data))
RUNTIME_PTSZ(cudaStreamBeginCapture, (cudaStream_t s, int mode), drv->cuStreamBeginCapture(s, mode))
RUNTIME_PTSZ(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *g), drv->cuStreamEndCapture(s, g))

RUNTIME(cudaEventCreate, (cudaEvent_t * e), sim_drv.cuEventCreate(e, 0))
RUNTIME_PTSZ(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), drv->cuEventRecord(e, s))
RUNTIME(cudaEventSynchronize, (cudaEvent_t e), sim_drv.cuEventSynchronize(e))
RUNTIME(cudaEventElapsedTime, (float *ms, cudaEvent_t a, cudaEvent_t b), sim_drv.cuEventElapsedTime(ms, a, b))
RUNTIME(cudaEventDestroy, (cudaEvent_t e), sim_drv.cuEventDestroy(e))
