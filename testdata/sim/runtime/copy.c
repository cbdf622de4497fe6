#include "internal.h"

#define D(p) ((CUdeviceptr)(uintptr_t)(p))

static int copy(void *dst, const void *src, size_t n, int kind)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return sim_drv.cuMemcpyHtoD(D(dst), src, n);
	case cudaMemcpyDeviceToHost:
		return sim_drv.cuMemcpyDtoH(dst, D(src), n);
	case cudaMemcpyDeviceToDevice:
		return sim_drv.cuMemcpyDtoD(D(dst), D(src), n);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return sim_drv.cuMemcpy(D(dst), D(src), n);
	default:
		return 21; /* cudaErrorInvalidMemcpyDirection */
	}
}

static int copy_async(void *dst, const void *src, size_t n, int kind, CUstream s)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return sim_drv.cuMemcpyHtoDAsync(D(dst), src, n, s);
	case cudaMemcpyDeviceToHost:
		return sim_drv.cuMemcpyDtoHAsync(dst, D(src), n, s);
	case cudaMemcpyDeviceToDevice:
		return sim_drv.cuMemcpyDtoDAsync(D(dst), D(src), n, s);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return sim_drv.cuMemcpyAsync(D(dst), D(src), n, s);
	default:
		return 21;
	}
}

static CUDA_MEMCPY2D pitched(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height)
{
	return (CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = D(src), .srcPitch = spitch,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = D(dst), .dstPitch = dpitch,
		.WidthInBytes = width, .Height = height,
	};
}

static int copy2d(CUDA_MEMCPY2D p)
{
	return sim_drv.cuMemcpy2D(&p);
}

static int copy2d_async(CUDA_MEMCPY2D p, CUstream s)
{
	return sim_drv.cuMemcpy2DAsync(&p, s);
}

static int peer(void *dst, int to, const void *src, int from, size_t n, bool async, CUstream s)
{
	CUcontext a, b;
	int r = sim_rt_context(to, &a);
	if (!r)
		r = sim_rt_context(from, &b);
	if (r)
		return r;
	return async ? sim_drv.cuMemcpyPeerAsync(D(dst), a, D(src), b, n, s) : sim_drv.cuMemcpyPeer(D(dst), a, D(src), b, n);
}

RUNTIME(cudaMemcpy, (void *dst, const void *src, size_t n, int kind), copy(dst, src, n, kind))
RUNTIME(cudaMemcpyAsync, (void *dst, const void *src, size_t n, int kind, cudaStream_t s),
	copy_async(dst, src, n, kind, s))
RUNTIME(cudaMemcpy2D, (void *dst, size_t dp, const void *src, size_t sp, size_t w, size_t h, int kind),
	((void)kind, copy2d(pitched(dst, dp, src, sp, w, h))))
RUNTIME(cudaMemcpy2DAsync, (void *dst, size_t dp, const void *src, size_t sp, size_t w, size_t h, int kind, cudaStream_t s),
	((void)kind, copy2d_async(pitched(dst, dp, src, sp, w, h), s)))
RUNTIME(cudaMemcpyPeer, (void *dst, int to, const void *src, int from, size_t n),
	peer(dst, to, src, from, n, false, NULL))
RUNTIME(cudaMemcpyPeerAsync, (void *dst, int to, const void *src, int from, size_t n, cudaStream_t s),
	peer(dst, to, src, from, n, true, s))
RUNTIME(cudaMemset, (void *p, int value, size_t n), sim_drv.cuMemsetD8(D(p), (unsigned char)value, n))
RUNTIME(cudaMemsetAsync, (void *p, int value, size_t n, cudaStream_t s),
	sim_drv.cuMemsetD8Async(D(p), (unsigned char)value, n, s))
