#include <string.h>

#include "internal.h"

/* CUPTI's copy kinds, by source and destination on the device or not. */
enum { HTOD = 1, DTOH = 2, DTOD = 8, HTOH = 9, PTOP = 10 };

/* What the caller's function says about its pointers. */
enum claim { ANY, TO_DEVICE, TO_HOST, ON_DEVICE };

struct copy {
	void *dst;
	const void *src;
	size_t width, height, dst_pitch, src_pitch;
	enum claim claim;
	bool async;
};

static uint8_t place(const void *p, struct sim_block *b)
{
	return sim_memory_find(p, b) ? (uint8_t)b->kind : SIM_PAGEABLE;
}

static bool inside(const struct sim_block *b, const void *p, size_t pitch, const struct copy *c)
{
	size_t span = c->height ? (c->height - 1) * pitch + c->width : 0;
	return (const char *)p + span <= b->start + b->size;
}

/* Fills in kinds and devices; a device pointer that is none, or that the copy
 * runs out of, is an invalid value. */
static CUresult classify(struct sim_copy_work *w, const struct copy *c)
{
	struct sim_block from = {0}, to = {0};
	w->src_kind = place(c->src, &from);
	w->dst_kind = place(c->dst, &to);
	bool src_device = w->src_kind == SIM_DEVICE_MEMORY, dst_device = w->dst_kind == SIM_DEVICE_MEMORY;
	if ((c->claim == TO_DEVICE || c->claim == ON_DEVICE) && !dst_device && w->dst_kind != SIM_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if ((c->claim == TO_HOST || c->claim == ON_DEVICE) && !src_device && w->src_kind != SIM_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if ((src_device && !inside(&from, c->src, c->src_pitch, c)) ||
	    (dst_device && !inside(&to, c->dst, c->dst_pitch, c)))
		return CUDA_ERROR_INVALID_VALUE;
	w->kind = src_device ? (dst_device ? DTOD : DTOH) : (dst_device ? HTOD : HTOH);
	w->peer = src_device && dst_device && from.device != to.device;
	if (w->peer)
		w->kind = PTOP;
	w->src_device = (uint32_t)from.device;
	w->dst_device = (uint32_t)to.device;
	w->src_context = from.context ? from.context->id : 0;
	w->dst_context = to.context ? to.context->id : 0;
	return CUDA_SUCCESS;
}

static CUresult submit(struct CUstream_st *s, const struct sim_copy_work *copy)
{
	struct sim_work *w;
	CUresult r = sim_submit_begin(s, SIM_COPY, &w);
	if (r)
		return r;
	w->copy = *copy;
	sim_submit_commit(s);
	return CUDA_SUCCESS;
}

static CUresult copy(const struct copy *c, CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	struct sim_copy_work w = {
		.dst = c->dst, .src = c->src, .width = c->width, .height = c->height,
		.dst_pitch = c->dst_pitch, .src_pitch = c->src_pitch, .async = c->async,
	};
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (r || !c->width || !c->height)
		return r;
	if (!c->dst || !c->src)
		return CUDA_ERROR_INVALID_VALUE;
	r = classify(&w, c);
	if (!r)
		r = submit(s, &w);
	/* A copy within device memory does not hold the host up. */
	if (r || c->async || w.kind == DTOD || w.kind == PTOP)
		return r;
	return sim_stream_wait(s);
}

static CUresult flat(void *dst, const void *src, size_t n, enum claim claim, bool async, CUstream stream,
		     enum sim_default_stream which)
{
	struct copy c = {dst, src, n, 1, n, n, claim, async};
	return copy(&c, stream, which);
}

static void *end_of(unsigned type, void *host, CUdeviceptr device, size_t x, size_t y, size_t pitch)
{
	char *base = type == CU_MEMORYTYPE_HOST ? host : (char *)device;
	return base ? base + y * pitch + x : NULL;
}

static CUresult pitched(const CUDA_MEMCPY2D *p, bool async, CUstream stream, enum sim_default_stream which)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY)
		return CUDA_ERROR_NOT_SUPPORTED;
	struct copy c = {.width = p->WidthInBytes, .height = p->Height, .async = async};
	c.src_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes;
	c.dst_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes;
	if (c.src_pitch < c.width || c.dst_pitch < c.width)
		return CUDA_ERROR_INVALID_VALUE;
	c.src = end_of(p->srcMemoryType, (void *)(uintptr_t)p->srcHost, p->srcDevice, p->srcXInBytes, p->srcY, c.src_pitch);
	c.dst = end_of(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstY, c.dst_pitch);
	return copy(&c, stream, which);
}

static CUresult peer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n, bool async,
		     CUstream stream, enum sim_default_stream which)
{
	if (!sim_context_valid(to) || !sim_context_valid(from))
		return sim_ready() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
	return flat((void *)dst, (void *)src, n, ON_DEVICE, async, stream, which);
}

static CUresult batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUstream stream,
		      enum sim_default_stream which)
{
	CUresult r = dsts && srcs && sizes && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !r; i++)
		r = flat((void *)dsts[i], (void *)srcs[i], sizes[i], ANY, true, stream, which);
	return r;
}

#define D(p) ((void *)(p))

DRIVER(cuMemcpy, (CUdeviceptr d, CUdeviceptr s, size_t n), flat(D(d), D(s), n, ANY, false, NULL, SIM_LEGACY))
DRIVER(cuMemcpy_ptds, (CUdeviceptr d, CUdeviceptr s, size_t n), flat(D(d), D(s), n, ANY, false, NULL, SIM_PTDS))
DRIVER(cuMemcpyAsync, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st),
       flat(D(d), D(s), n, ANY, true, st, SIM_LEGACY))
DRIVER(cuMemcpyAsync_ptsz, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st),
       flat(D(d), D(s), n, ANY, true, st, SIM_PTDS))
DRIVER(cuMemcpyHtoD_v2, (CUdeviceptr d, const void *s, size_t n), flat(D(d), s, n, TO_DEVICE, false, NULL, SIM_LEGACY))
DRIVER(cuMemcpyHtoD_v2_ptds, (CUdeviceptr d, const void *s, size_t n),
       flat(D(d), s, n, TO_DEVICE, false, NULL, SIM_PTDS))
DRIVER(cuMemcpyHtoDAsync_v2, (CUdeviceptr d, const void *s, size_t n, CUstream st),
       flat(D(d), s, n, TO_DEVICE, true, st, SIM_LEGACY))
DRIVER(cuMemcpyHtoDAsync_v2_ptsz, (CUdeviceptr d, const void *s, size_t n, CUstream st),
       flat(D(d), s, n, TO_DEVICE, true, st, SIM_PTDS))
DRIVER(cuMemcpyDtoH_v2, (void *d, CUdeviceptr s, size_t n), flat(d, D(s), n, TO_HOST, false, NULL, SIM_LEGACY))
DRIVER(cuMemcpyDtoH_v2_ptds, (void *d, CUdeviceptr s, size_t n), flat(d, D(s), n, TO_HOST, false, NULL, SIM_PTDS))
DRIVER(cuMemcpyDtoHAsync_v2, (void *d, CUdeviceptr s, size_t n, CUstream st),
       flat(d, D(s), n, TO_HOST, true, st, SIM_LEGACY))
DRIVER(cuMemcpyDtoHAsync_v2_ptsz, (void *d, CUdeviceptr s, size_t n, CUstream st),
       flat(d, D(s), n, TO_HOST, true, st, SIM_PTDS))
DRIVER(cuMemcpyDtoD_v2, (CUdeviceptr d, CUdeviceptr s, size_t n),
       flat(D(d), D(s), n, ON_DEVICE, false, NULL, SIM_LEGACY))
DRIVER(cuMemcpyDtoD_v2_ptds, (CUdeviceptr d, CUdeviceptr s, size_t n),
       flat(D(d), D(s), n, ON_DEVICE, false, NULL, SIM_PTDS))
DRIVER(cuMemcpyDtoDAsync_v2, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st),
       flat(D(d), D(s), n, ON_DEVICE, true, st, SIM_LEGACY))
DRIVER(cuMemcpyDtoDAsync_v2_ptsz, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st),
       flat(D(d), D(s), n, ON_DEVICE, true, st, SIM_PTDS))
DRIVER(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *p), pitched(p, false, NULL, SIM_LEGACY))
DRIVER(cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *p), pitched(p, false, NULL, SIM_PTDS))
DRIVER(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *p, CUstream st), pitched(p, true, st, SIM_LEGACY))
DRIVER(cuMemcpy2DAsync_v2_ptsz, (const CUDA_MEMCPY2D *p, CUstream st), pitched(p, true, st, SIM_PTDS))
DRIVER(cuMemcpyPeer, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n),
       peer(d, dc, s, sc, n, false, NULL, SIM_LEGACY))
DRIVER(cuMemcpyPeer_ptds, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n),
       peer(d, dc, s, sc, n, false, NULL, SIM_PTDS))
DRIVER(cuMemcpyPeerAsync, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream st),
       peer(d, dc, s, sc, n, true, st, SIM_LEGACY))
DRIVER(cuMemcpyPeerAsync_ptsz, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream st),
       peer(d, dc, s, sc, n, true, st, SIM_PTDS))
DRIVER(cuMemcpyBatchAsync_v2,
       (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, void *attrs, size_t *attr_indexes,
	size_t attr_count, CUstream st),
       ((void)attrs, (void)attr_indexes, (void)attr_count, batch(dsts, srcs, sizes, count, st, SIM_LEGACY)))
DRIVER(cuMemcpyBatchAsync_v2_ptsz,
       (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, void *attrs, size_t *attr_indexes,
	size_t attr_count, CUstream st),
       ((void)attrs, (void)attr_indexes, (void)attr_count, batch(dsts, srcs, sizes, count, st, SIM_PTDS)))
