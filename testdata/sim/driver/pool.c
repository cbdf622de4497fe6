/* Memory in stream order. A pool counts bytes as CUDA does: the memory that it has
 * reserved grows in steps and shrinks when it is trimmed. */
#include <sys/mman.h>

#include "internal.h"

#define STEP (32u << 20) /* bytes that a pool grows by */

static struct sim_slab pools = SIM_SLAB(struct CUmemPoolHandle_st, 4096);
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static CUmemoryPool first[16], chosen[16];

static bool valid(CUmemoryPool p)
{
	return sim_slab_has(&pools, p);
}

static CUmemoryPool make(CUdevice device, bool own)
{
	CUmemoryPool p = sim_slab_get(&pools);
	if (!p)
		return NULL;
	p->device = device;
	p->own = own;
	atomic_store(&p->reserved, STEP);
	p->base = mmap(NULL, STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	sim_report_pool(SIM_POOL_CREATED, p, 0);
	return p;
}

static CUresult of_device(CUmemoryPool *out, CUdevice device, CUmemoryPool *slot)
{
	struct sim_device_info info;
	CUresult r = out ? sim_device_info(device, &info) : CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	pthread_mutex_lock(&mu);
	if (!first[device])
		first[device] = make(device, false);
	if (!chosen[device])
		chosen[device] = first[device];
	*out = slot[device];
	pthread_mutex_unlock(&mu);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create(CUmemoryPool *out, const CUmemPoolProps *props)
{
	struct sim_device_info info;
	if (!out || !props)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = sim_device_info(props->location.id, &info);
	if (!r && !(*out = make(props->location.id, true)))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	return r;
}

static CUresult destroy(CUmemoryPool p)
{
	if (!valid(p) || !p->own)
		return CUDA_ERROR_INVALID_VALUE;
	sim_report_pool(SIM_POOL_DESTROYED, p, 0);
	pthread_mutex_lock(&mu);
	if (chosen[p->device] == p)
		chosen[p->device] = first[p->device];
	pthread_mutex_unlock(&mu);
	if (p->base != MAP_FAILED)
		munmap(p->base, STEP);
	sim_slab_put(&pools, p); /* memory that is still in use keeps its block */
	return CUDA_SUCCESS;
}

static CUresult trim(CUmemoryPool p, size_t keep)
{
	if (!valid(p))
		return CUDA_ERROR_INVALID_VALUE;
	uint64_t want = atomic_load(&p->used) > keep ? atomic_load(&p->used) : keep;
	want = (want + STEP - 1) / STEP * STEP;
	if (want < atomic_load(&p->reserved))
		atomic_store(&p->reserved, want);
	sim_report_pool(SIM_POOL_TRIMMED, p, keep);
	return CUDA_SUCCESS;
}

static void raise_to(_Atomic uint64_t *high, uint64_t value)
{
	uint64_t seen = atomic_load(high);
	while (seen < value && !atomic_compare_exchange_weak(high, &seen, value))
		;
}

static void takes(CUmemoryPool p, size_t size)
{
	uint64_t now = atomic_fetch_add(&p->used, size) + size;
	raise_to(&p->reserved, (now + STEP - 1) / STEP * STEP);
	raise_to(&p->used_high, now);
	raise_to(&p->reserved_high, atomic_load(&p->reserved));
}

void sim_pool_gives_back(CUmemoryPool p, size_t size)
{
	if (valid(p))
		atomic_fetch_sub(&p->used, size);
}

static CUresult allocate(CUdeviceptr *out, size_t n, CUmemoryPool p)
{
	struct sim_block b;
	CUresult r = valid(p) ? sim_memory_new(n, SIM_DEVICE_MEMORY, p, 0, (void **)out) : CUDA_ERROR_INVALID_VALUE;
	if (r || !sim_memory_find((void *)*out, &b))
		return r;
	takes(p, b.mapped);
	return CUDA_SUCCESS;
}

static CUresult alloc_async(CUdeviceptr *out, size_t n, CUmemoryPool p, bool any, CUstream stream,
			    enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (!r && any)
		r = of_device(&p, s->ctx->device, chosen);
	return r ? r : allocate(out, n, p);
}

static CUresult free_async(CUdeviceptr p, CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	struct sim_block b;
	struct sim_work *w;
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (!r && (!sim_memory_find((void *)p, &b) || b.start != (char *)p || !b.mapped || b.kind == SIM_PINNED))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = sim_submit_begin(s, SIM_FREE, &w);
	if (r)
		return r;
	w->free = (void *)p;
	sim_submit_commit(s);
	return CUDA_SUCCESS;
}

DRIVER_SHOWN_PTSZ(cuMemAllocAsync, (CUdeviceptr * p, size_t n, CUstream s),
	     (p, n, s), alloc_async(p, n, NULL, true, s, which))
DRIVER_SHOWN_PTSZ(cuMemAllocFromPoolAsync, (CUdeviceptr * p, size_t n, CUmemoryPool pool, CUstream s), (p, n, pool, s),
	    alloc_async(p, n, pool, false, s, which))
DRIVER_SHOWN_PTSZ(cuMemFreeAsync, (CUdeviceptr p, CUstream s), (p, s), free_async(p, s, which))
/* Memory of graphs belongs to the device and is freed at once. */
DRIVER_SHOWN(cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps *props), (out, props), create(out, props))
DRIVER(cuMemPoolDestroy, (CUmemoryPool p), destroy(p))
DRIVER(cuMemPoolTrimTo, (CUmemoryPool p, size_t keep), trim(p, keep))
