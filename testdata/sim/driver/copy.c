#include <string.h>

#include "internal.h"

#define PEER_TO_PEER 10 /* CUPTI's kind of a copy between devices */

/* The kinds of the pointers, as the called function declares them. */
enum claim { ANY, TO_DEVICE, TO_HOST, ON_DEVICE };

struct side {
	char *at;
	size_t pitch, slice; /* bytes from row to row, from slice to slice */
};

struct copy {
	struct side dst, src;
	size_t width, height, depth; /* bytes, rows, slices */
	enum claim claim;
	bool async;
};

static uint8_t place(const void *p, struct sim_block *b)
{
	return sim_memory_find(p, b) ? (uint8_t)b->kind : SIM_PAGEABLE;
}

static bool inside(const struct sim_block *b, const struct side *s, const struct copy *c)
{
	size_t span = 0;
	if (c->height && c->depth)
		span = (c->depth - 1) * s->slice + (c->height - 1) * s->pitch + c->width;
	return s->at + span <= b->start + b->size;
}

static uint8_t kind_of(uint8_t src, uint8_t dst)
{
	static const uint8_t kinds[3][3] = { /* CUPTI's, from host, device, array to host, device, array */
		{9, 1, 3}, {2, 8, 7}, {4, 6, 5},
	};
	int from = src == SIM_ARRAY ? 2 : sim_on_device(src), to = dst == SIM_ARRAY ? 2 : sim_on_device(dst);
	return kinds[from][to];
}

/* Fills in kinds and devices. An invalid device pointer, or one that the copy
 * runs beyond, is an invalid value. */
static CUresult classify(struct sim_copy_work *w, const struct copy *c)
{
	struct sim_block from = {0}, to = {0};
	w->src_kind = place(c->src.at, &from);
	w->dst_kind = place(c->dst.at, &to);
	bool src_device = sim_on_device(w->src_kind), dst_device = sim_on_device(w->dst_kind);
	if ((c->claim == TO_DEVICE || c->claim == ON_DEVICE) && !dst_device && w->dst_kind != SIM_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if ((c->claim == TO_HOST || c->claim == ON_DEVICE) && !src_device && w->src_kind != SIM_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if ((src_device && !inside(&from, &c->src, c)) || (dst_device && !inside(&to, &c->dst, c)))
		return CUDA_ERROR_INVALID_VALUE;
	w->kind = kind_of(w->src_kind, w->dst_kind);
	w->peer = src_device && dst_device && from.device != to.device;
	if (w->peer)
		w->kind = PEER_TO_PEER;
	w->src_device = (uint32_t)from.device;
	w->dst_device = (uint32_t)to.device;
	w->src_context = from.context ? from.context->id : 0;
	w->dst_context = to.context ? to.context->id : 0;
	return CUDA_SUCCESS;
}

static CUresult describe(struct sim_copy_work *w, const struct copy *c)
{
	*w = (struct sim_copy_work){
		.dst = c->dst.at, .src = c->src.at, .width = c->width, .height = c->height, .depth = c->depth,
		.dst_pitch = c->dst.pitch, .src_pitch = c->src.pitch, .dst_slice = c->dst.slice, .src_slice = c->src.slice,
		.async = c->async,
	};
	return c->dst.at && c->src.at ? classify(w, c) : CUDA_ERROR_INVALID_VALUE;
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
	struct sim_copy_work w;
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (r || !c->width || !c->height || !c->depth)
		return r;
	r = describe(&w, c);
	if (!r)
		r = submit(s, &w);
	/* The host does not wait for a copy within device memory. */
	if (r || c->async || (sim_on_device(w.src_kind) && sim_on_device(w.dst_kind)))
		return r;
	return sim_stream_wait(s);
}

static CUresult flat(void *dst, const void *src, size_t n, enum claim claim, bool async, CUstream stream,
		     enum sim_default_stream which)
{
	struct copy c = {{dst, n, n}, {(char *)(uintptr_t)src, n, n}, n, 1, 1, claim, async};
	return copy(&c, stream, which);
}

/* One side of a copy in rows and slices. */
struct end {
	unsigned type;
	void *host;
	CUdeviceptr device;
	CUarray array;
	size_t x, y, z, pitch, height; /* pitch and height 0: packed */
};

static CUresult side(struct side *out, const struct end *e, size_t width, size_t height)
{
	char *base = e->type == CU_MEMORYTYPE_HOST ? e->host : (char *)e->device;
	out->pitch = e->pitch ? e->pitch : width;
	out->slice = out->pitch * (e->height ? e->height : height);
	if (e->type == CU_MEMORYTYPE_ARRAY) {
		if (!sim_array_valid(e->array))
			return CUDA_ERROR_INVALID_HANDLE;
		base = e->array->base;
		out->pitch = e->array->width;
		out->slice = e->array->width * e->array->height;
	}
	if (!base || out->pitch < width)
		return CUDA_ERROR_INVALID_VALUE;
	out->at = base + e->z * out->slice + e->y * out->pitch + e->x;
	return CUDA_SUCCESS;
}

static CUresult from_ends(struct copy *c, const struct end *dst, const struct end *src)
{
	CUresult r = side(&c->dst, dst, c->width, c->height);
	return r ? r : side(&c->src, src, c->width, c->height);
}

static CUresult from3d(struct copy *c, const CUDA_MEMCPY3D *p)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	struct end src = {p->srcMemoryType, (void *)(uintptr_t)p->srcHost, p->srcDevice, p->srcArray,
			  p->srcXInBytes, p->srcY, p->srcZ, p->srcPitch, p->srcHeight};
	struct end dst = {p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray,
			  p->dstXInBytes, p->dstY, p->dstZ, p->dstPitch, p->dstHeight};
	c->width = p->WidthInBytes;
	c->height = p->Height;
	c->depth = p->Depth;
	return from_ends(c, &dst, &src);
}

static CUresult solid(const CUDA_MEMCPY3D *p, bool async, CUstream stream, enum sim_default_stream which)
{
	struct copy c = {.async = async};
	CUresult r = from3d(&c, p);
	return r ? r : copy(&c, stream, which);
}

static CUresult pitched(const CUDA_MEMCPY2D *p, bool async, CUstream stream, enum sim_default_stream which)
{
	struct copy c = {.async = async};
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	struct end src = {p->srcMemoryType, (void *)(uintptr_t)p->srcHost, p->srcDevice, p->srcArray,
			  p->srcXInBytes, p->srcY, 0, p->srcPitch, 0};
	struct end dst = {p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray,
			  p->dstXInBytes, p->dstY, 0, p->dstPitch, 0};
	c.width = p->WidthInBytes;
	c.height = p->Height;
	c.depth = 1;
	CUresult r = from_ends(&c, &dst, &src);
	return r ? r : copy(&c, stream, which);
}

static CUresult peer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n, bool async,
		     CUstream stream, enum sim_default_stream which)
{
	if (!sim_context_valid(to) || !sim_context_valid(from))
		return sim_ready() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
	return flat((void *)dst, (void *)src, n, ON_DEVICE, async, stream, which);
}

static CUresult batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, size_t *failed, CUstream stream,
		      enum sim_default_stream which)
{
	CUresult r = dsts && srcs && sizes && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (failed)
		*failed = SIZE_MAX;
	for (size_t i = 0; i < count && !r; i++) {
		r = flat((void *)dsts[i], (void *)srcs[i], sizes[i], ANY, true, stream, which);
		if (r && failed)
			*failed = i;
	}
	return r;
}

static CUresult in_array(void **at, CUarray a, size_t offset)
{
	if (!sim_array_valid(a))
		return CUDA_ERROR_INVALID_HANDLE;
	*at = a->base + offset;
	return CUDA_SUCCESS;
}

static CUresult to_array(CUarray a, size_t offset, const void *src, size_t n, enum claim claim, bool async,
			 CUstream stream, enum sim_default_stream which)
{
	void *at;
	CUresult r = in_array(&at, a, offset);
	return r ? r : flat(at, src, n, claim, async, stream, which);
}

#define D(p) ((void *)(p))

DRIVER_PTDS(cuMemcpy, (CUdeviceptr d, CUdeviceptr s, size_t n), flat(D(d), D(s), n, ANY, false, NULL, which))
DRIVER_PTSZ(cuMemcpyAsync, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st), flat(D(d), D(s), n, ANY, true, st, which))
DRIVER_PTDS(cuMemcpyHtoD_v2, (CUdeviceptr d, const void *s, size_t n), flat(D(d), s, n, TO_DEVICE, false, NULL, which))
DRIVER_PTSZ(cuMemcpyHtoDAsync_v2, (CUdeviceptr d, const void *s, size_t n, CUstream st),
	    flat(D(d), s, n, TO_DEVICE, true, st, which))
DRIVER_PTDS(cuMemcpyDtoH_v2, (void *d, CUdeviceptr s, size_t n), flat(d, D(s), n, TO_HOST, false, NULL, which))
DRIVER_PTSZ(cuMemcpyDtoHAsync_v2, (void *d, CUdeviceptr s, size_t n, CUstream st),
	    flat(d, D(s), n, TO_HOST, true, st, which))
DRIVER_PTDS(cuMemcpyDtoD_v2, (CUdeviceptr d, CUdeviceptr s, size_t n), flat(D(d), D(s), n, ON_DEVICE, false, NULL, which))
DRIVER_PTSZ(cuMemcpyDtoDAsync_v2, (CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st),
	    flat(D(d), D(s), n, ON_DEVICE, true, st, which))
DRIVER_PTDS(cuMemcpyDtoA_v2, (CUarray a, size_t o, CUdeviceptr s, size_t n),
	    to_array(a, o, D(s), n, ON_DEVICE, false, NULL, which))
DRIVER_PTDS(cuMemcpyHtoA_v2, (CUarray a, size_t o, const void *s, size_t n),
	    to_array(a, o, s, n, TO_DEVICE, false, NULL, which))
DRIVER_PTDS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *p), pitched(p, false, NULL, which))
DRIVER_PTSZ(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *p, CUstream st), pitched(p, true, st, which))
DRIVER_PTDS(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *p), solid(p, false, NULL, which))
DRIVER_PTSZ(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *p, CUstream st), solid(p, true, st, which))
DRIVER_PTDS(cuMemcpyPeer, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n),
	    peer(d, dc, s, sc, n, false, NULL, which))
DRIVER_PTSZ(cuMemcpyPeerAsync, (CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n, CUstream st),
	    peer(d, dc, s, sc, n, true, st, which))
DRIVER_PTSZ(cuMemcpyBatchAsync_v2,
	    (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, void *attrs, size_t *attr_indexes,
	     size_t attr_count, CUstream st),
	    ((void)attrs, (void)attr_indexes, (void)attr_count, batch(dsts, srcs, sizes, count, NULL, st, which)))
