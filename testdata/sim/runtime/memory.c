#include <string.h>

#include "internal.h"

/* A zero-byte allocation succeeds with a null pointer. */
static int alloc(void **p, size_t n)
{
	if (!p)
		return cudaErrorInvalidValue;
	*p = NULL;
	return n ? sim_drv.cuMemAlloc((CUdeviceptr *)p, n) : 0;
}

static int alloc_pitch(void **p, size_t *pitch, size_t width, size_t height)
{
	return sim_drv.cuMemAllocPitch((CUdeviceptr *)p, pitch, width, height, 4);
}

static int alloc_box(cudaPitchedPtr *out, cudaExtent e)
{
	if (!out)
		return cudaErrorInvalidValue;
	out->xsize = e.width;
	out->ysize = e.height;
	return alloc_pitch(&out->ptr, &out->pitch, e.width, e.height * e.depth);
}

/* CUarray_format, by kind of number and its bytes. */
static int format(const cudaChannelFormatDesc *d)
{
	static const uint8_t formats[3][5] = {
		{[1] = 0x08, [2] = 0x09, [4] = 0x0a}, {[1] = 0x01, [2] = 0x02, [4] = 0x03}, {[2] = 0x10, [4] = 0x20},
	};
	if (d->f < 0 || d->f > 2 || d->x < 8 || d->x > 32)
		return 0;
	return formats[d->f][d->x / 8];
}

static int alloc_array(CUarray *out, const cudaChannelFormatDesc *desc, cudaExtent e, unsigned flags)
{
	if (!out || !desc)
		return cudaErrorInvalidValue;
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = e.width, .Height = e.height, .Depth = e.depth, .Format = format(desc), .Flags = flags,
		.NumChannels = 1u + (desc->y != 0) + (desc->z != 0) + (desc->w != 0),
	};
	return sim_drv.cuArray3DCreate(out, &d);
}

static int attributes(cudaPointerAttributes *out, const void *p)
{
	enum { TYPE, ORDINAL, MANAGED };
	int which[] = {2, 9, 8}, type = 0, device = 0;
	bool managed = false;
	void *values[] = {[TYPE] = &type, [ORDINAL] = &device, [MANAGED] = &managed};
	if (!out)
		return cudaErrorInvalidValue;
	int r = sim_drv.cuPointerGetAttributes(3, which, values, (CUdeviceptr)(uintptr_t)p);
	memset(out, 0, sizeof *out);
	if (r)
		return r;
	out->type = managed ? 3 : type > 2 ? 2 : type;
	out->device = type ? device : -2; /* cudaInvalidDeviceId */
	out->devicePointer = type ? (void *)(uintptr_t)p : NULL;
	out->hostPointer = type != CU_MEMORYTYPE_DEVICE || managed ? (void *)(uintptr_t)p : NULL;
	return 0;
}

RUNTIME(cudaMalloc, (void **p, size_t n), alloc(p, n))
RUNTIME(cudaMallocManaged, (void **p, size_t n, unsigned flags), sim_drv.cuMemAllocManaged((CUdeviceptr *)p, n, flags))
RUNTIME(cudaMallocPitch, (void **p, size_t *pitch, size_t w, size_t h), alloc_pitch(p, pitch, w, h))
RUNTIME(cudaMalloc3D, (cudaPitchedPtr * p, cudaExtent e), alloc_box(p, e))
RUNTIME(cudaFree, (void *p), p ? sim_drv.cuMemFree((CUdeviceptr)p) : 0)
RUNTIME(cudaMallocHost, (void **p, size_t n), sim_drv.cuMemAllocHost(p, n))
RUNTIME(cudaHostAlloc, (void **p, size_t n, unsigned flags), sim_drv.cuMemHostAlloc(p, n, flags))
RUNTIME(cudaFreeHost, (void *p), p ? sim_drv.cuMemFreeHost(p) : 0)
RUNTIME(cudaHostRegister, (void *p, size_t n, unsigned flags), sim_drv.cuMemHostRegister(p, n, flags))
RUNTIME(cudaHostUnregister, (void *p), sim_drv.cuMemHostUnregister(p))
RUNTIME(cudaHostGetDevicePointer, (void **out, void *p, unsigned flags),
	sim_drv.cuMemHostGetDevicePointer((CUdeviceptr *)out, p, flags))
RUNTIME(cudaHostGetFlags, (unsigned *out, void *p), sim_drv.cuMemHostGetFlags(out, p))
RUNTIME(cudaMemGetInfo, (size_t *free_bytes, size_t *total), sim_drv.cuMemGetInfo(free_bytes, total))
RUNTIME(cudaMallocArray, (CUarray * a, const cudaChannelFormatDesc *d, size_t w, size_t h, unsigned flags),
	alloc_array(a, d, (cudaExtent){w, h, 0}, flags))
RUNTIME(cudaMalloc3DArray, (CUarray * a, const cudaChannelFormatDesc *d, cudaExtent e, unsigned flags),
	alloc_array(a, d, e, flags))
RUNTIME(cudaFreeArray, (CUarray a), a ? sim_drv.cuArrayDestroy(a) : 0)
RUNTIME_PTSZ(cudaMemPrefetchAsync, (const void *p, size_t n, CUmemLocation to, unsigned flags, cudaStream_t s),
	     drv->cuMemPrefetchAsync((CUdeviceptr)(uintptr_t)p, n, to, flags, s))
RUNTIME_PTSZ(cudaMemPrefetchBatchAsync,
	     (void **list, size_t *sizes, size_t count, CUmemLocation *to, size_t *indexes, size_t locations,
	      unsigned long long flags, cudaStream_t s),
	     drv->cuMemPrefetchBatchAsync((CUdeviceptr *)list, sizes, count, to, indexes, locations, flags, s))
RUNTIME(cudaMemRangeGetAttribute, (void *out, size_t size, int attribute, const void *p, size_t n),
	sim_drv.cuMemRangeGetAttribute(out, size, attribute, (CUdeviceptr)(uintptr_t)p, n))
RUNTIME(cudaMemAdvise, (const void *p, size_t n, int advice, CUmemLocation to),
	sim_drv.cuMemAdvise((CUdeviceptr)(uintptr_t)p, n, advice, to))
RUNTIME(cudaPointerGetAttributes, (cudaPointerAttributes * out, const void *p), attributes(out, p))
RUNTIME(cudaGetSymbolAddress, (void **out, const void *symbol),
	out ? sim_rt_symbol(symbol, (CUdeviceptr *)out, &(size_t){0}) : cudaErrorInvalidValue)
RUNTIME(cudaGetSymbolSize, (size_t *out, const void *symbol),
	out ? sim_rt_symbol(symbol, &(CUdeviceptr){0}, out) : cudaErrorInvalidValue)
RUNTIME(cudaIpcGetMemHandle, (CUipcMemHandle * out, void *p), sim_drv.cuIpcGetMemHandle(out, (CUdeviceptr)p))
RUNTIME(cudaIpcOpenMemHandle, (void **out, CUipcMemHandle handle, unsigned flags),
	sim_drv.cuIpcOpenMemHandle((CUdeviceptr *)out, handle, flags))
RUNTIME(cudaIpcCloseMemHandle, (void *p), sim_drv.cuIpcCloseMemHandle((CUdeviceptr)p))

RUNTIME_PTSZ(cudaMallocAsync, (void **p, size_t n, cudaStream_t s), drv->cuMemAllocAsync((CUdeviceptr *)p, n, s))
RUNTIME_PTSZ(cudaMallocFromPoolAsync, (void **p, size_t n, cudaMemPool_t pool, cudaStream_t s),
	     drv->cuMemAllocFromPoolAsync((CUdeviceptr *)p, n, pool, s))
RUNTIME_PTSZ(cudaFreeAsync, (void *p, cudaStream_t s), drv->cuMemFreeAsync((CUdeviceptr)p, s))
RUNTIME(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * out, int device), sim_drv.cuDeviceGetDefaultMemPool(out, device))
RUNTIME(cudaDeviceGetMemPool, (cudaMemPool_t * out, int device), sim_drv.cuDeviceGetMemPool(out, device))
RUNTIME(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), sim_drv.cuDeviceSetMemPool(device, pool))
RUNTIME(cudaMemPoolCreate, (cudaMemPool_t * out, const CUmemPoolProps *props), sim_drv.cuMemPoolCreate(out, props))
RUNTIME(cudaMemPoolDestroy, (cudaMemPool_t p), sim_drv.cuMemPoolDestroy(p))
RUNTIME(cudaMemPoolTrimTo, (cudaMemPool_t p, size_t keep), sim_drv.cuMemPoolTrimTo(p, keep))
RUNTIME(cudaMemPoolGetAttribute, (cudaMemPool_t p, int which, void *out), sim_drv.cuMemPoolGetAttribute(p, which, out))
RUNTIME(cudaMemPoolSetAttribute, (cudaMemPool_t p, int which, void *value), sim_drv.cuMemPoolSetAttribute(p, which, value))
RUNTIME(cudaMemPoolGetAccess, (int *flags, cudaMemPool_t p, CUmemLocation *where),
	sim_drv.cuMemPoolGetAccess(flags, p, where))
RUNTIME(cudaMemPoolSetAccess, (cudaMemPool_t p, const CUmemAccessDesc *list, size_t count),
	sim_drv.cuMemPoolSetAccess(p, list, count))
