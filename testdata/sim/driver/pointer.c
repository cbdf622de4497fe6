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

DRIVER(cuPointerGetAttributes, (unsigned count, int *attributes, void **out, CUdeviceptr p),
       get_all(count, attributes, out, p))
