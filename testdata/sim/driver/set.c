#include "internal.h"

CUresult sim_set_describe(struct sim_set_work *w, const CUDA_MEMSET_NODE_PARAMS *p)
{
	struct sim_block b;
	size_t unit = p->elementSize, row = p->width * unit, pitch = p->height == 1 ? row : p->pitch;
	if ((unit != 1 && unit != 2 && unit != 4) || pitch < row || p->dst % unit || !sim_memory_find((void *)p->dst, &b))
		return CUDA_ERROR_INVALID_VALUE;
	if ((char *)p->dst + (p->height - 1) * pitch + row > b.start + b.size)
		return CUDA_ERROR_INVALID_VALUE;
	*w = (struct sim_set_work){(void *)p->dst, p->width, p->height, pitch, p->value, (uint32_t)unit, (uint8_t)b.kind, true};
	return CUDA_SUCCESS;
}

static CUresult set(CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t unit, size_t width, size_t height,
		    bool async, CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	struct sim_set_work work;
	struct sim_work *w;
	CUDA_MEMSET_NODE_PARAMS p = {dst, pitch, value, unit, width, height};
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (r || !width || !height)
		return r;
	r = sim_set_describe(&work, &p);
	if (!r)
		r = sim_submit_begin(s, SIM_SET, &w);
	if (r)
		return r;
	work.async = async;
	w->set = work;
	sim_submit_commit(s);
	return CUDA_SUCCESS;
}

/* One element width in all its spellings. */
#define SETS(bits, type) \
	DRIVER_PTDS(cuMemsetD##bits##_v2, (CUdeviceptr d, type v, size_t n), \
		    set(d, 0, v, sizeof v, n, 1, false, NULL, which)) \
	DRIVER_PTSZ(cuMemsetD##bits##Async, (CUdeviceptr d, type v, size_t n, CUstream s), \
		    set(d, 0, v, sizeof v, n, 1, true, s, which)) \
	DRIVER_PTDS(cuMemsetD2D##bits##_v2, (CUdeviceptr d, size_t pitch, type v, size_t w, size_t h), \
		    set(d, pitch, v, sizeof v, w, h, false, NULL, which)) \
	DRIVER_PTSZ(cuMemsetD2D##bits##Async, (CUdeviceptr d, size_t pitch, type v, size_t w, size_t h, CUstream s), \
		    set(d, pitch, v, sizeof v, w, h, true, s, which))

SETS(8, unsigned char)
SETS(16, unsigned short)
SETS(32, unsigned)
