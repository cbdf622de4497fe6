/* Memory in stream order. A pool counts bytes as CUDA does: the memory that it has
 * reserved grows in steps and shrinks when it is trimmed. */
#include <sys/mman.h>

#include "internal.h"

#define STEP (32u << 20) /* bytes that a pool grows by */

enum { THRESHOLD = 4, RESERVED, RESERVED_HIGH, USED, USED_HIGH }; /* attributes; 1 to 3 are switches */

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

static CUresult choose(CUdevice device, CUmemoryPool p)
{
	CUmemoryPool now;
	CUresult r = of_device(&now, device, chosen);
	if (r || !valid(p) || p->device != device)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&mu);
	chosen[device] = p;
	pthread_mutex_unlock(&mu);
	return CUDA_SUCCESS;
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

static CUresult get_attribute(CUmemoryPool p, int attribute, void *out)
{
	if (!valid(p) || !out || attribute < 1 || attribute > USED_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute < THRESHOLD) {
		*(int *)out = 1;
		return CUDA_SUCCESS;
	}
	_Atomic uint64_t *fields[] = {&p->threshold, &p->reserved, &p->reserved_high, &p->used, &p->used_high};
	*(uint64_t *)out = atomic_load(fields[attribute - THRESHOLD]);
	return CUDA_SUCCESS;
}

static CUresult set_attribute(CUmemoryPool p, int attribute, const void *value)
{
	if (!valid(p) || !value)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == THRESHOLD)
		atomic_store(&p->threshold, *(const uint64_t *)value);
	else if ((attribute == RESERVED_HIGH || attribute == USED_HIGH) && *(const uint64_t *)value == 0)
		atomic_store(attribute == USED_HIGH ? &p->used_high : &p->reserved_high, 0);
	else if (attribute < 1 || attribute > USED_HIGH || attribute >= RESERVED)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* All devices see all memory. */
static CUresult get_access(int *flags, CUmemoryPool p, const CUmemLocation *location)
{
	if (!flags || !location || !valid(p))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = 3;
	return CUDA_SUCCESS;
}

static CUresult set_access(CUmemoryPool p, const CUmemAccessDesc *map, size_t count)
{
	return valid(p) && (map || !count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRIVER_SHOWN_PTSZ(cuMemAllocAsync, (CUdeviceptr * p, size_t n, CUstream s),
	     (p, n, s), alloc_async(p, n, NULL, true, s, which))
DRIVER_SHOWN_PTSZ(cuMemAllocFromPoolAsync, (CUdeviceptr * p, size_t n, CUmemoryPool pool, CUstream s), (p, n, pool, s),
	    alloc_async(p, n, pool, false, s, which))
DRIVER_SHOWN_PTSZ(cuMemFreeAsync, (CUdeviceptr p, CUstream s), (p, s), free_async(p, s, which))
DRIVER(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice dev), of_device(out, dev, first))
DRIVER(cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice dev), of_device(out, dev, chosen))
DRIVER(cuDeviceSetMemPool, (CUdevice dev, CUmemoryPool p), choose(dev, p))
/* Memory of graphs belongs to the device and is freed at once. */
DRIVER(cuDeviceGraphMemTrim, (CUdevice dev), sim_device_info(dev, &(struct sim_device_info){0}))
DRIVER_SHOWN(cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps *props), (out, props), create(out, props))
DRIVER(cuMemPoolDestroy, (CUmemoryPool p), destroy(p))
DRIVER(cuMemPoolTrimTo, (CUmemoryPool p, size_t keep), trim(p, keep))
DRIVER(cuMemPoolGetAttribute, (CUmemoryPool p, int attribute, void *out), get_attribute(p, attribute, out))
DRIVER(cuMemPoolSetAttribute, (CUmemoryPool p, int attribute, void *value), set_attribute(p, attribute, value))
DRIVER(cuMemPoolGetAccess, (int *flags, CUmemoryPool p, CUmemLocation *location), get_access(flags, p, location))
DRIVER(cuMemPoolSetAccess, (CUmemoryPool p, const CUmemAccessDesc *map, size_t count), set_access(p, map, count))
