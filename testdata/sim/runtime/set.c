#include "internal.h"

#define D(p) ((CUdeviceptr)(uintptr_t)(p))

/* One memset per slice. */
INTERNAL int box(const struct sim_driver *drv, cudaPitchedPtr p, int value, cudaExtent e, bool async, CUstream s)
{
	unsigned char byte = (unsigned char)value;
	for (size_t z = 0; z < e.depth; z++) {
		CUdeviceptr at = D(p.ptr) + z * p.pitch * p.ysize;
		int r = async ? drv->cuMemsetD2D8Async(at, p.pitch, byte, e.width, e.height, s)
			      : drv->cuMemsetD2D8(at, p.pitch, byte, e.width, e.height);
		if (r)
			return r;
	}
	return 0;
}

INTERNAL int fill(const struct sim_driver *drv, CUdeviceptr at, unsigned char byte, size_t n)
{
	return drv->cuMemsetD8(at, byte, n);
}

INTERNAL int fill_async(const struct sim_driver *drv, CUdeviceptr at, unsigned char byte, size_t n, CUstream s)
{
	return drv->cuMemsetD8Async(at, byte, n, s);
}

RUNTIME_PTDS(cudaMemset, (void *p, int value, size_t n), fill(drv, D(p), (unsigned char)value, n))
RUNTIME_PTSZ(cudaMemsetAsync, (void *p, int value, size_t n, cudaStream_t s),
	     fill_async(drv, D(p), (unsigned char)value, n, s))
RUNTIME_PTDS(cudaMemset2D, (void *p, size_t pitch, int value, size_t width, size_t height),
	     drv->cuMemsetD2D8(D(p), pitch, (unsigned char)value, width, height))
RUNTIME_PTDS(cudaMemset3D, (cudaPitchedPtr p, int value, cudaExtent e), box(drv, p, value, e, false, NULL))
