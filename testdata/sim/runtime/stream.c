#include "internal.h"

RUNTIME(cudaStreamCreate, (cudaStream_t * s), sim_drv.cuStreamCreate(s, 0))
RUNTIME(cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned flags), sim_drv.cuStreamCreate(s, flags))
RUNTIME(cudaStreamCreateWithPriority, (cudaStream_t * s, unsigned flags, int priority),
	sim_drv.cuStreamCreateWithPriority(s, flags, priority))
RUNTIME(cudaStreamDestroy, (cudaStream_t s), sim_drv.cuStreamDestroy(s))
RUNTIME(cudaStreamSynchronize, (cudaStream_t s), sim_drv.cuStreamSynchronize(s))
RUNTIME(cudaStreamQuery, (cudaStream_t s), sim_drv.cuStreamQuery(s))
RUNTIME(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags), sim_drv.cuStreamWaitEvent(s, e, flags))
RUNTIME(cudaLaunchHostFunc, (cudaStream_t s, void (*fn)(void *), void *data), sim_drv.cuLaunchHostFunc(s, fn, data))
RUNTIME(cudaEventCreate, (cudaEvent_t * e), sim_drv.cuEventCreate(e, 0))
RUNTIME(cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned flags), sim_drv.cuEventCreate(e, flags))
RUNTIME(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), sim_drv.cuEventRecord(e, s))
RUNTIME(cudaEventSynchronize, (cudaEvent_t e), sim_drv.cuEventSynchronize(e))
RUNTIME(cudaEventQuery, (cudaEvent_t e), sim_drv.cuEventQuery(e))
RUNTIME(cudaEventElapsedTime, (float *ms, cudaEvent_t a, cudaEvent_t b), sim_drv.cuEventElapsedTime(ms, a, b))
RUNTIME(cudaEventDestroy, (cudaEvent_t e), sim_drv.cuEventDestroy(e))
