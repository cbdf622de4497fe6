/* Attributes of pointers, and advice about memory. */
#include <string.h>

#include "internal.h"

/* CUpointer_attribute */
enum {
	CONTEXT = 1, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER, SYNC_MEMOPS = 6, BUFFER_ID, IS_MANAGED, DEVICE_ORDINAL,
	RANGE_START = 11, RANGE_SIZE, MAPPED, MEMPOOL = 17,
};

static size_t value_of(const struct sim_block *b, int attribute, void *out, CUdeviceptr p)
{
	int number = 0;
	void *pointer = NULL;
	switch (attribute) {
	case MEMORY_TYPE:
		number = b->kind == SIM_PINNED ? CU_MEMORYTYPE_HOST : b->kind == SIM_ARRAY ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
		break;
	case IS_MANAGED:
		*(bool *)out = b->kind == SIM_MANAGED;
		return 1;
	case MAPPED:
		*(bool *)out = true;
		return 1;
	case DEVICE_ORDINAL:
		number = b->device;
		break;
	case SYNC_MEMOPS:
		break;
	case BUFFER_ID:
	case RANGE_START:
		pointer = b->start;
		break;
	case RANGE_SIZE:
		pointer = (void *)b->size;
		break;
	case CONTEXT:
		pointer = b->context;
		break;
	case DEVICE_POINTER:
		pointer = (void *)p;
		break;
	case HOST_POINTER:
		pointer = b->kind == SIM_PINNED || b->kind == SIM_MANAGED ? (void *)p : NULL;
		break;
	case MEMPOOL:
		pointer = b->pool;
		break;
	default:
		return 0;
	}
	bool wide = attribute != MEMORY_TYPE && attribute != DEVICE_ORDINAL && attribute != SYNC_MEMOPS;
	memcpy(out, wide ? (void *)&pointer : (void *)&number, wide ? sizeof pointer : sizeof number);
	return wide ? sizeof pointer : sizeof number;
}

static CUresult get(void *out, int attribute, CUdeviceptr p)
{
	struct sim_block b;
	if (!out || !sim_memory_find((void *)p, &b))
		return sim_ready() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
	return value_of(&b, attribute, out, p) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* Every attribute of an unknown pointer is 0. */
static CUresult get_all(unsigned count, const int *attributes, void **out, CUdeviceptr p)
{
	struct sim_block b, none = {.kind = SIM_PAGEABLE};
	if (!attributes || !out || !count)
		return CUDA_ERROR_INVALID_VALUE;
	bool found = sim_memory_find((void *)p, &b);
	for (unsigned i = 0; i < count; i++) {
		uint64_t word = 0;
		size_t size = value_of(found ? &b : &none, attributes[i], &word, p);
		if (!size)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (!found)
			word = 0;
		memcpy(out[i], &word, size);
	}
	return CUDA_SUCCESS;
}

/* Memory has only one place here, so moving it and advising on it change nothing. */
static CUresult managed(CUdeviceptr p, size_t n)
{
	struct sim_block b;
	if (!n || !sim_memory_find((void *)p, &b) || b.kind != SIM_MANAGED || (char *)p + n > b.start + b.size)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult prefetch(CUdeviceptr p, size_t n, CUstream stream, enum sim_default_stream which)
{
	struct CUstream_st *s;
	CUresult r = sim_stream_resolve(stream, which, &s);
	return r ? r : managed(p, n);
}

static CUresult attach(CUdeviceptr p, size_t n, CUstream stream, enum sim_default_stream which)
{
	struct sim_block b;
	struct CUstream_st *s;
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (!r && (!sim_memory_find((void *)p, &b) || b.kind != SIM_MANAGED || (n && n != b.size)))
		r = CUDA_ERROR_INVALID_VALUE;
	return r;
}

static CUresult prefetch_batch(const CUdeviceptr *list, const size_t *sizes, size_t count, CUstream stream,
			       enum sim_default_stream which)
{
	CUresult r = list && sizes && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !r; i++)
		r = prefetch(list[i], sizes[i], stream, which);
	return r;
}

/* No advice is ever stored: the result is no, or no device. */
static CUresult range_attribute(void *out, size_t size, int attribute, CUdeviceptr p, size_t n)
{
	if (!out || size < sizeof(int) || attribute < 1 || attribute > 4)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = managed(p, n);
	for (size_t i = 0; !r && i < size / sizeof(int); i++)
		((int *)out)[i] = attribute == 1 ? 0 : -2;
	return r;
}

DRIVER(cuMemRangeGetAttribute, (void *out, size_t size, int attribute, CUdeviceptr p, size_t n),
       range_attribute(out, size, attribute, p, n))
DRIVER_PTSZ(cuMemPrefetchBatchAsync,
	    (CUdeviceptr * list, size_t *sizes, size_t count, CUmemLocation *to, size_t *indexes, size_t locations,
	     unsigned long long flags, CUstream s),
	    ((void)to, (void)indexes, (void)locations, (void)flags, prefetch_batch(list, sizes, count, s, which)))
DRIVER(cuPointerGetAttribute, (void *out, int attribute, CUdeviceptr p), get(out, attribute, p))
DRIVER(cuPointerGetAttributes, (unsigned count, int *attributes, void **out, CUdeviceptr p),
       get_all(count, attributes, out, p))
DRIVER(cuPointerSetAttribute, (const void *value, int attribute, CUdeviceptr p),
       value && attribute == SYNC_MEMOPS && sim_memory_find((void *)p, &(struct sim_block){0}) ? CUDA_SUCCESS
											     : CUDA_ERROR_INVALID_VALUE)
DRIVER_PTSZ(cuMemPrefetchAsync_v2, (CUdeviceptr p, size_t n, CUmemLocation to, unsigned flags, CUstream s),
	    ((void)to, (void)flags, prefetch(p, n, s, which)))
DRIVER_PTSZ(cuMemPrefetchAsync, (CUdeviceptr p, size_t n, CUdevice to, CUstream s), ((void)to, prefetch(p, n, s, which)))
DRIVER(cuMemAdvise_v2, (CUdeviceptr p, size_t n, int advice, CUmemLocation to), ((void)advice, (void)to, managed(p, n)))
DRIVER(cuMemAdvise, (CUdeviceptr p, size_t n, int advice, CUdevice to), ((void)advice, (void)to, managed(p, n)))
DRIVER_PTSZ(cuStreamAttachMemAsync, (CUstream s, CUdeviceptr p, size_t n, unsigned flags),
	    ((void)flags, attach(p, n, s, which)))
