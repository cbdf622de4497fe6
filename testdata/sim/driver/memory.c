#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

/* Device memory is host memory at page-aligned addresses. Blocks are kept
 * sorted by address. */
static pthread_rwlock_t mu = PTHREAD_RWLOCK_INITIALIZER;
static struct sim_block *blocks;
static size_t count, room;
static uint64_t used; /* bytes of device memory, over all devices */

/* Index of the first block that starts above p. */
static size_t above(const void *p)
{
	size_t lo = 0, hi = count;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if ((uintptr_t)blocks[mid].start <= (uintptr_t)p)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool grow(void)
{
	if (count < room)
		return true;
	size_t n = room ? room * 2 : 64;
	struct sim_block *bigger = realloc(blocks, n * sizeof *blocks);
	if (!bigger)
		return false;
	blocks = bigger;
	room = n;
	return true;
}

static bool insert(const struct sim_block *b)
{
	if (!grow())
		return false;
	size_t at = above(b->start);
	memmove(blocks + at + 1, blocks + at, (count - at) * sizeof *blocks);
	blocks[at] = *b;
	count++;
	return true;
}

CUresult sim_memory_new(size_t size, enum sim_memory kind, void **out)
{
	CUcontext ctx = sim_context_current();
	uint64_t limit = sim_config()->memory_mb << 20;
	if (!out || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ctx)
		return sim_ready() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
	if (size > limit)
		return CUDA_ERROR_OUT_OF_MEMORY;
	size_t mapped = (size + 4095) & ~(size_t)4095;
	char *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_block b = {p, size, mapped, kind, ctx->device, ctx};
	pthread_rwlock_wrlock(&mu);
	bool full = kind == SIM_DEVICE_MEMORY && used + mapped > limit * sim_config()->devices;
	bool done = !full && insert(&b);
	if (done && kind == SIM_DEVICE_MEMORY)
		used += mapped;
	pthread_rwlock_unlock(&mu);
	if (!done) {
		munmap(p, mapped);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = p;
	return CUDA_SUCCESS;
}

static CUresult take(void *p, enum sim_memory kind, bool any)
{
	struct sim_block b;
	pthread_rwlock_wrlock(&mu);
	size_t at = above(p);
	bool found = at > 0 && blocks[at - 1].start == (char *)p && (any || blocks[at - 1].kind == kind);
	if (found) {
		b = blocks[at - 1];
		memmove(blocks + at - 1, blocks + at, (count - at) * sizeof *blocks);
		count--;
		if (b.kind == SIM_DEVICE_MEMORY)
			used -= b.mapped;
	}
	pthread_rwlock_unlock(&mu);
	if (!found)
		return CUDA_ERROR_INVALID_VALUE;
	munmap(b.start, b.mapped);
	return CUDA_SUCCESS;
}

CUresult sim_memory_free(void *p, enum sim_memory kind)
{
	if (!p)
		return CUDA_SUCCESS;
	if (!sim_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	/* Work in flight may still use the block: wait for it, as cudaFree does. */
	CUcontext ctx = sim_context_current();
	struct sim_block b;
	if (!sim_memory_find(p, &b) || b.start != (char *)p || b.kind != kind)
		return CUDA_ERROR_INVALID_VALUE;
	if (ctx)
		sim_context_wait(ctx);
	return take(p, kind, false);
}

CUresult sim_memory_drop(void *p)
{
	return take(p, SIM_DEVICE_MEMORY, true);
}

bool sim_memory_find(const void *p, struct sim_block *out)
{
	pthread_rwlock_rdlock(&mu);
	size_t at = above(p);
	bool found = at > 0 && (const char *)p < blocks[at - 1].start + blocks[at - 1].size;
	if (found)
		*out = blocks[at - 1];
	pthread_rwlock_unlock(&mu);
	return found;
}

static CUresult memory_info(size_t *free_bytes, size_t *total)
{
	if (!free_bytes || !total)
		return CUDA_ERROR_INVALID_VALUE;
	*total = sim_config()->memory_mb << 20;
	pthread_rwlock_rdlock(&mu);
	*free_bytes = used < *total ? *total - used : 0;
	pthread_rwlock_unlock(&mu);
	return CUDA_SUCCESS;
}

static CUresult alloc_async(CUdeviceptr *p, size_t n, CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_resolve(stream, which, &s);
	return r ? r : sim_memory_new(n, SIM_DEVICE_MEMORY, (void **)p);
}

static CUresult free_async(CUdeviceptr p, CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	struct sim_block b;
	struct sim_work *w;
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (!r && (!sim_memory_find((void *)p, &b) || b.start != (char *)p))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = sim_submit_begin(s, SIM_FREE, &w);
	if (r)
		return r;
	w->free = (void *)p;
	sim_submit_commit(s);
	return CUDA_SUCCESS;
}

DRIVER(cuMemAlloc_v2, (CUdeviceptr * p, size_t n), sim_memory_new(n, SIM_DEVICE_MEMORY, (void **)p))
DRIVER(cuMemFree_v2, (CUdeviceptr p), sim_memory_free((void *)p, SIM_DEVICE_MEMORY))
DRIVER(cuMemAllocHost_v2, (void **p, size_t n), sim_memory_new(n, SIM_PINNED, p))
DRIVER(cuMemFreeHost, (void *p), sim_memory_free(p, SIM_PINNED))
DRIVER(cuMemGetInfo_v2, (size_t * free_bytes, size_t *total), memory_info(free_bytes, total))
DRIVER(cuMemAllocAsync, (CUdeviceptr * p, size_t n, CUstream s), alloc_async(p, n, s, SIM_LEGACY))
DRIVER(cuMemAllocAsync_ptsz, (CUdeviceptr * p, size_t n, CUstream s), alloc_async(p, n, s, SIM_PTDS))
DRIVER(cuMemFreeAsync, (CUdeviceptr p, CUstream s), free_async(p, s, SIM_LEGACY))
DRIVER(cuMemFreeAsync_ptsz, (CUdeviceptr p, CUstream s), free_async(p, s, SIM_PTDS))
