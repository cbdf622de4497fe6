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
RUNTIME(cudaFree, (void *p), p ? sim_drv.cuMemFree((CUdeviceptr)p) : 0)
RUNTIME(cudaMallocHost, (void **p, size_t n), sim_drv.cuMemAllocHost(p, n))
RUNTIME(cudaHostAlloc, (void **p, size_t n, unsigned flags), sim_drv.cuMemHostAlloc(p, n, flags))
RUNTIME(cudaFreeHost, (void *p), p ? sim_drv.cuMemFreeHost(p) : 0)
RUNTIME(cudaHostRegister, (void *p, size_t n, unsigned flags), sim_drv.cuMemHostRegister(p, n, flags))
RUNTIME(cudaHostUnregister, (void *p), sim_drv.cuMemHostUnregister(p))
RUNTIME(cudaMallocArray, (CUarray * a, const cudaChannelFormatDesc *d, size_t w, size_t h, unsigned flags),
	alloc_array(a, d, (cudaExtent){w, h, 0}, flags))
RUNTIME(cudaFreeArray, (CUarray a), a ? sim_drv.cuArrayDestroy(a) : 0)
RUNTIME(cudaPointerGetAttributes, (cudaPointerAttributes * out, const void *p), attributes(out, p))
RUNTIME(cudaIpcGetMemHandle, (CUipcMemHandle * out, void *p), sim_drv.cuIpcGetMemHandle(out, (CUdeviceptr)p))
RUNTIME(cudaIpcOpenMemHandle, (void **out, CUipcMemHandle handle, unsigned flags),
	sim_drv.cuIpcOpenMemHandle((CUdeviceptr *)out, handle, flags))
RUNTIME(cudaIpcCloseMemHandle, (void *p), sim_drv.cuIpcCloseMemHandle((CUdeviceptr)p))

RUNTIME_PTSZ(cudaMallocAsync, (void **p, size_t n, cudaStream_t s), drv->cuMemAllocAsync((CUdeviceptr *)p, n, s))
RUNTIME_PTSZ(cudaMallocFromPoolAsync, (void **p, size_t n, cudaMemPool_t pool, cudaStream_t s),
	     drv->cuMemAllocFromPoolAsync((CUdeviceptr *)p, n, pool, s))
RUNTIME_PTSZ(cudaFreeAsync, (void *p, cudaStream_t s), drv->cuMemFreeAsync((CUdeviceptr)p, s))
RUNTIME(cudaMemPoolCreate, (cudaMemPool_t * out, const CUmemPoolProps *props), sim_drv.cuMemPoolCreate(out, props))
RUNTIME(cudaMemPoolDestroy, (cudaMemPool_t p), sim_drv.cuMemPoolDestroy(p))
RUNTIME(cudaMemPoolTrimTo, (cudaMemPool_t p, size_t keep), sim_drv.cuMemPoolTrimTo(p, keep))
