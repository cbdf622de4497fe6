#include "internal.h"

/* A zero-byte allocation succeeds with a null pointer. */
static int alloc(void **p, size_t n)
{
	if (!p)
		return cudaErrorInvalidValue;
	*p = NULL;
	return n ? sim_drv.cuMemAlloc((CUdeviceptr *)p, n) : 0;
}

RUNTIME(cudaMalloc, (void **p, size_t n), alloc(p, n))
RUNTIME(cudaFree, (void *p), p ? sim_drv.cuMemFree((CUdeviceptr)p) : 0)
RUNTIME(cudaMallocHost, (void **p, size_t n), sim_drv.cuMemAllocHost(p, n))
RUNTIME(cudaHostAlloc, (void **p, size_t n, unsigned flags), ((void)flags, sim_drv.cuMemAllocHost(p, n)))
RUNTIME(cudaFreeHost, (void *p), p ? sim_drv.cuMemFreeHost(p) : 0)
RUNTIME(cudaMallocAsync, (void **p, size_t n, cudaStream_t s), sim_drv.cuMemAllocAsync((CUdeviceptr *)p, n, s))
RUNTIME(cudaFreeAsync, (void *p, cudaStream_t s), sim_drv.cuMemFreeAsync((CUdeviceptr)p, s))
RUNTIME(cudaMemGetInfo, (size_t *free_bytes, size_t *total), sim_drv.cuMemGetInfo(free_bytes, total))
