#include "internal.h"

#define D(p) ((CUdeviceptr)(uintptr_t)(p))
#define BAD_DIRECTION 21 /* cudaErrorInvalidMemcpyDirection */

INTERNAL int copy(const struct sim_driver *drv, void *dst, const void *src, size_t n, int kind)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return drv->cuMemcpyHtoD(D(dst), src, n);
	case cudaMemcpyDeviceToHost:
		return drv->cuMemcpyDtoH(dst, D(src), n);
	case cudaMemcpyDeviceToDevice:
		return drv->cuMemcpyDtoD(D(dst), D(src), n);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return drv->cuMemcpy(D(dst), D(src), n);
	default:
		return BAD_DIRECTION;
	}
}

INTERNAL int copy_async(const struct sim_driver *drv, void *dst, const void *src, size_t n, int kind, CUstream s)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return drv->cuMemcpyHtoDAsync(D(dst), src, n, s);
	case cudaMemcpyDeviceToHost:
		return drv->cuMemcpyDtoHAsync(dst, D(src), n, s);
	case cudaMemcpyDeviceToDevice:
		return drv->cuMemcpyDtoDAsync(D(dst), D(src), n, s);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return drv->cuMemcpyAsync(D(dst), D(src), n, s);
	default:
		return BAD_DIRECTION;
	}
}

INTERNAL int flat(const struct sim_driver *drv, void *dst, const void *src, size_t n, int kind)
{
	return copy(drv, dst, src, n, kind);
}

INTERNAL int flat_async(const struct sim_driver *drv, void *dst, const void *src, size_t n, int kind, CUstream s)
{
	return copy_async(drv, dst, src, n, kind, s);
}

/* One side of a copy in rows: memory or an array. x is in bytes for both. */
struct rows {
	const void *p;
	size_t pitch;
	CUarray array;
	size_t x, y;
};

#define MEMORY(pointer, pitch) ((struct rows){pointer, pitch, NULL, 0, 0})
#define ARRAY(array, x, y) ((struct rows){NULL, 0, array, x, y})

INTERNAL int rows(const struct sim_driver *drv, struct rows dst, struct rows src, size_t width, size_t height, bool async,
		CUstream s)
{
	CUDA_MEMCPY2D p = {
		.srcMemoryType = src.array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED, .srcDevice = D(src.p),
		.srcPitch = src.pitch, .srcArray = src.array, .srcXInBytes = src.x, .srcY = src.y,
		.dstMemoryType = dst.array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED, .dstDevice = D(dst.p),
		.dstPitch = dst.pitch, .dstArray = dst.array, .dstXInBytes = dst.x, .dstY = dst.y,
		.WidthInBytes = width, .Height = height,
	};
	return async ? drv->cuMemcpy2DAsync(&p, s) : drv->cuMemcpy2D(&p);
}

static size_t element(CUarray a)
{
	static const uint8_t bytes[] = {[0x01] = 1, [0x02] = 2, [0x03] = 4, [0x08] = 1, [0x09] = 2, [0x0a] = 4, [0x10] = 2,
					[0x20] = 4};
	CUDA_ARRAY3D_DESCRIPTOR d;
	if (!a || sim_drv.cuArray3DGetDescriptor(&d, a) || d.Format < 0 || (size_t)d.Format >= sizeof bytes)
		return 1;
	return bytes[d.Format] * (size_t)d.NumChannels;
}

int sim_rt_copy_params(CUDA_MEMCPY3D *out, const cudaMemcpy3DParms *p)
{
	if (!p)
		return cudaErrorInvalidValue;
	size_t unit = element(p->srcArray ? p->srcArray : p->dstArray);
	*out = (CUDA_MEMCPY3D){
		.srcXInBytes = p->srcPos.x * (p->srcArray ? unit : 1), .srcY = p->srcPos.y, .srcZ = p->srcPos.z,
		.srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED, .srcArray = p->srcArray,
		.srcDevice = D(p->srcPtr.ptr), .srcPitch = p->srcPtr.pitch, .srcHeight = p->srcPtr.ysize,
		.dstXInBytes = p->dstPos.x * (p->dstArray ? unit : 1), .dstY = p->dstPos.y, .dstZ = p->dstPos.z,
		.dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED, .dstArray = p->dstArray,
		.dstDevice = D(p->dstPtr.ptr), .dstPitch = p->dstPtr.pitch, .dstHeight = p->dstPtr.ysize,
		.WidthInBytes = p->extent.width * unit, .Height = p->extent.height, .Depth = p->extent.depth,
	};
	return 0;
}

INTERNAL int solid(const struct sim_driver *drv, const cudaMemcpy3DParms *p, bool async, CUstream s)
{
	CUDA_MEMCPY3D d;
	int r = sim_rt_copy_params(&d, p);
	if (r)
		return r;
	return async ? drv->cuMemcpy3DAsync(&d, s) : drv->cuMemcpy3D(&d);
}

INTERNAL int peer(void *dst, int to, const void *src, int from, size_t n, bool async, CUstream s)
{
	CUcontext a, b;
	int r = sim_rt_context(to, &a);
	if (!r)
		r = sim_rt_context(from, &b);
	if (r)
		return r;
	return async ? sim_drv.cuMemcpyPeerAsync(D(dst), a, D(src), b, n, s) : sim_drv.cuMemcpyPeer(D(dst), a, D(src), b, n);
}

static int in_symbol(const void *symbol, size_t n, size_t offset, char **at)
{
	CUdeviceptr p;
	size_t size;
	int r = sim_rt_symbol(symbol, &p, &size);
	if (!r && offset + n > size)
		r = cudaErrorInvalidValue;
	*at = (char *)p + offset;
	return r;
}

INTERNAL int to_symbol(const struct sim_driver *drv, const void *symbol, const void *src, size_t n, size_t offset, int kind,
		     bool async, CUstream s)
{
	char *at;
	int r = in_symbol(symbol, n, offset, &at);
	if (r)
		return r;
	return async ? copy_async(drv, at, src, n, kind, s) : copy(drv, at, src, n, kind);
}

INTERNAL int from_symbol(const struct sim_driver *drv, void *dst, const void *symbol, size_t n, size_t offset, int kind,
		       bool async, CUstream s)
{
	char *at;
	int r = in_symbol(symbol, n, offset, &at);
	if (r)
		return r;
	return async ? copy_async(drv, dst, at, n, kind, s) : copy(drv, dst, at, n, kind);
}

/* The place of byte x of row y in an array. */
static size_t in_array(CUarray a, size_t x, size_t y)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {0};
	if (sim_drv.cuArray3DGetDescriptor(&d, a))
		return 0;
	return y * d.Width * element(a) + x;
}

/* Up to the end of the row, then the rest: two calls of the driver's. */
INTERNAL int to_array(const struct sim_driver *drv, CUarray a, size_t x, size_t y, const void *src, size_t n, int kind)
{
	size_t at = in_array(a, x, y), left = in_array(a, 0, y + 1) - at;
	if (kind == cudaMemcpyDeviceToDevice)
		return drv->cuMemcpyDtoA(a, at, D(src), n);
	if (n <= left)
		return drv->cuMemcpyHtoA(a, at, src, n);
	int r = drv->cuMemcpyHtoA(a, at, src, left);
	return r ? r : drv->cuMemcpyHtoA(a, at + left, (const char *)src + left, n - left);
}

#define DST_ARRAY CUarray dst, size_t x, size_t y
#define SRC_ARRAY CUarray src, size_t x, size_t y

RUNTIME_PTDS(cudaMemcpy, (void *dst, const void *src, size_t n, int kind), flat(drv, dst, src, n, kind))
RUNTIME_PTSZ(cudaMemcpyAsync, (void *dst, const void *src, size_t n, int kind, cudaStream_t s),
	     flat_async(drv, dst, src, n, kind, s))
RUNTIME_PTDS(cudaMemcpy2D, (void *dst, size_t dp, const void *src, size_t sp, size_t w, size_t h, int kind),
	     ((void)kind, rows(drv, MEMORY(dst, dp), MEMORY(src, sp), w, h, false, NULL)))
RUNTIME_PTSZ(cudaMemcpy2DAsync,
	     (void *dst, size_t dp, const void *src, size_t sp, size_t w, size_t h, int kind, cudaStream_t s),
	     ((void)kind, rows(drv, MEMORY(dst, dp), MEMORY(src, sp), w, h, true, s)))
RUNTIME_PTDS(cudaMemcpy2DToArray, (DST_ARRAY, const void *src, size_t sp, size_t w, size_t h, int kind),
	     ((void)kind, rows(drv, ARRAY(dst, x, y), MEMORY(src, sp), w, h, false, NULL)))
RUNTIME_PTDS(cudaMemcpy2DFromArray, (void *dst, size_t dp, SRC_ARRAY, size_t w, size_t h, int kind),
	     ((void)kind, rows(drv, MEMORY(dst, dp), ARRAY(src, x, y), w, h, false, NULL)))
RUNTIME_PTDS(cudaMemcpy3D, (const cudaMemcpy3DParms *p), solid(drv, p, false, NULL))
RUNTIME(cudaMemcpyPeer, (void *dst, int to, const void *src, int from, size_t n),
	peer(dst, to, src, from, n, false, NULL))
RUNTIME_PTDS(cudaMemcpyToSymbol, (const void *symbol, const void *src, size_t n, size_t offset, int kind),
	     to_symbol(drv, symbol, src, n, offset, kind, false, NULL))
RUNTIME_PTDS(cudaMemcpyFromSymbol, (void *dst, const void *symbol, size_t n, size_t offset, int kind),
	     from_symbol(drv, dst, symbol, n, offset, kind, false, NULL))
RUNTIME_PTDS(cudaMemcpyToArray, (DST_ARRAY, const void *src, size_t n, int kind), to_array(drv, dst, x, y, src, n, kind))
