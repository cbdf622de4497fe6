#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static CUresult remember(const struct sim_block *b)
{
	uint64_t limit = SIM_MEMORY * sim_config()->devices;
	size_t counted = b->kind == SIM_PINNED ? 0 : b->mapped;
	pthread_rwlock_wrlock(&mu);
	bool done = used + counted <= limit && insert(b);
	if (done)
		used += counted;
	pthread_rwlock_unlock(&mu);
	return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_memory_new(size_t size, enum sim_memory kind, CUmemoryPool pool, unsigned flags, void **out)
{
	CUcontext ctx = sim_context_current();
	if (!out || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ctx)
		return sim_ready() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
	if (size > SIM_MEMORY)
		return CUDA_ERROR_OUT_OF_MEMORY;
	size_t mapped = (size + 4095) & ~(size_t)4095;
	char *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_block b = {p, size, mapped, kind, pool ? pool->device : ctx->device, ctx, pool, flags};
	CUresult r = remember(&b);
	if (r)
		munmap(p, mapped);
	else
		*out = p;
	return r;
}

CUresult sim_memory_adopt(void *p, size_t size, enum sim_memory kind, unsigned flags)
{
	CUcontext ctx = sim_context_current();
	struct sim_block b = {p, size, 0, kind, ctx ? ctx->device : 0, ctx, NULL, flags}, other;
	if (!ctx)
		return sim_ready() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
	if (!p || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_memory_find(p, &other))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	return remember(&b);
}

static bool take(void *p, struct sim_block *b)
{
	pthread_rwlock_wrlock(&mu);
	size_t at = above(p);
	bool found = at > 0 && blocks[at - 1].start == (char *)p;
	if (found) {
		*b = blocks[at - 1];
		memmove(blocks + at - 1, blocks + at, (count - at) * sizeof *blocks);
		count--;
		if (b->kind != SIM_PINNED)
			used -= b->mapped;
	}
	pthread_rwlock_unlock(&mu);
	return found;
}

CUresult sim_memory_drop(void *p)
{
	struct sim_block b;
	if (!take(p, &b))
		return CUDA_ERROR_INVALID_VALUE;
	if (b.mapped)
		munmap(b.start, b.mapped);
	if (b.pool)
		sim_pool_gives_back(b.pool, b.mapped);
	return CUDA_SUCCESS;
}

CUresult sim_memory_disown(void *p)
{
	struct sim_block b;
	if (!sim_memory_find(p, &b) || b.start != (char *)p || b.mapped)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_context_current())
		sim_context_wait(sim_context_current());
	return take(p, &b) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Managed memory is freed as the device's is. */
static bool freed_as(const struct sim_block *b, enum sim_memory kind)
{
	return b->mapped && (b->kind == kind || (b->kind == SIM_MANAGED && kind == SIM_DEVICE_MEMORY));
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
	if (!sim_memory_find(p, &b) || b.start != (char *)p || !freed_as(&b, kind))
		return CUDA_ERROR_INVALID_VALUE;
	if (ctx)
		sim_context_wait(ctx);
	return sim_memory_drop(p);
}

/* Moves the pages into a file, at the same address, so that another process can map
 * them too. */
CUresult sim_memory_share(void *p, size_t *size, int *fd)
{
	struct sim_block b;
	if (!sim_memory_find(p, &b) || b.start != (char *)p || b.kind != SIM_DEVICE_MEMORY || !b.mapped)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_context_current())
		sim_context_wait(sim_context_current());
	int f = memfd_create("cudasim", MFD_CLOEXEC);
	bool copied = f >= 0 && ftruncate(f, (off_t)b.mapped) == 0 && pwrite(f, b.start, b.mapped, 0) == (ssize_t)b.mapped;
	if (copied && mmap(b.start, b.mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, f, 0) == b.start) {
		*size = b.size;
		*fd = f;
		return CUDA_SUCCESS;
	}
	if (f >= 0)
		close(f);
	return CUDA_ERROR_OUT_OF_MEMORY;
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

static CUresult alloc(void **p, size_t n, enum sim_memory kind, unsigned flags)
{
	return sim_memory_new(n, kind, NULL, flags, p);
}

#define PITCH 512 /* alignment of rows, bytes */

static CUresult alloc_pitch(CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned element)
{
	if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = (width + PITCH - 1) / PITCH * PITCH;
	return alloc((void **)p, *pitch * height, SIM_DEVICE_MEMORY, 0);
}

static CUresult register_host(void *p, size_t n, unsigned flags)
{
	return sim_memory_adopt(p, n, SIM_PINNED, flags);
}

static CUresult unregister_host(void *p)
{
	struct sim_block b;
	if (!sim_memory_find(p, &b) || b.start != (char *)p || b.mapped || b.kind != SIM_PINNED)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	return sim_memory_disown(p);
}

DRIVER_SHOWN(cuMemAlloc_v2, (CUdeviceptr * p, size_t n), (p, n), alloc((void **)p, n, SIM_DEVICE_MEMORY, 0))
DRIVER_SHOWN(cuMemAllocPitch_v2, (CUdeviceptr * p, size_t *pitch, size_t width, size_t height, unsigned element),
	     (p, pitch, width, height, element),
       alloc_pitch(p, pitch, width, height, element))
DRIVER_SHOWN(cuMemAllocManaged, (CUdeviceptr * p, size_t n, unsigned flags),
	     (p, n, flags), alloc((void **)p, n, SIM_MANAGED, flags))
DRIVER_SHOWN(cuMemFree_v2, (CUdeviceptr p), (p), sim_memory_free((void *)p, SIM_DEVICE_MEMORY))
DRIVER_SHOWN(cuMemAllocHost_v2, (void **p, size_t n), (p, n), alloc(p, n, SIM_PINNED, 0))
DRIVER_SHOWN(cuMemHostAlloc, (void **p, size_t n, unsigned flags), (p, n, flags), alloc(p, n, SIM_PINNED, flags))
DRIVER_SHOWN(cuMemFreeHost, (void *p), (p), sim_memory_free(p, SIM_PINNED))
DRIVER_SHOWN(cuMemHostRegister_v2, (void *p, size_t n, unsigned flags), (p, n, flags), register_host(p, n, flags))
DRIVER_SHOWN(cuMemHostUnregister, (void *p), (p), unregister_host(p))
