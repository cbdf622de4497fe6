#include "internal.h"

static CUresult set(CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t unit, size_t width, size_t height,
		    bool async, CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	struct sim_block b;
	struct sim_work *w;
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (r || !width || !height)
		return r;
	if (height == 1)
		pitch = width * unit;
	if (pitch < width * unit || dst % unit || !sim_memory_find((void *)dst, &b))
		return CUDA_ERROR_INVALID_VALUE;
	if ((char *)dst + (height - 1) * pitch + width * unit > b.start + b.size)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_submit_begin(s, SIM_SET, &w);
	if (r)
		return r;
	w->set = (struct sim_set_work){(void *)dst, width, height, pitch, value, unit, (uint8_t)b.kind, async};
	sim_submit_commit(s);
	return CUDA_SUCCESS;
}

/* One element width in all its spellings. */
#define SETS(bits, type) \
	DRIVER(cuMemsetD##bits##_v2, (CUdeviceptr d, type v, size_t n), \
	       set(d, 0, v, sizeof v, n, 1, false, NULL, SIM_LEGACY)) \
	DRIVER(cuMemsetD##bits##_v2_ptds, (CUdeviceptr d, type v, size_t n), \
	       set(d, 0, v, sizeof v, n, 1, false, NULL, SIM_PTDS)) \
	DRIVER(cuMemsetD##bits##Async, (CUdeviceptr d, type v, size_t n, CUstream s), \
	       set(d, 0, v, sizeof v, n, 1, true, s, SIM_LEGACY)) \
	DRIVER(cuMemsetD##bits##Async_ptsz, (CUdeviceptr d, type v, size_t n, CUstream s), \
	       set(d, 0, v, sizeof v, n, 1, true, s, SIM_PTDS)) \
	DRIVER(cuMemsetD2D##bits##_v2, (CUdeviceptr d, size_t pitch, type v, size_t w, size_t h), \
	       set(d, pitch, v, sizeof v, w, h, false, NULL, SIM_LEGACY)) \
	DRIVER(cuMemsetD2D##bits##_v2_ptds, (CUdeviceptr d, size_t pitch, type v, size_t w, size_t h), \
	       set(d, pitch, v, sizeof v, w, h, false, NULL, SIM_PTDS)) \
	DRIVER(cuMemsetD2D##bits##Async, (CUdeviceptr d, size_t pitch, type v, size_t w, size_t h, CUstream s), \
	       set(d, pitch, v, sizeof v, w, h, true, s, SIM_LEGACY)) \
	DRIVER(cuMemsetD2D##bits##Async_ptsz, (CUdeviceptr d, size_t pitch, type v, size_t w, size_t h, CUstream s), \
	       set(d, pitch, v, sizeof v, w, h, true, s, SIM_PTDS))

SETS(8, unsigned char)
SETS(16, unsigned short)
SETS(32, unsigned)
