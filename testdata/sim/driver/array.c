/* Arrays are plain memory here, row after row. */
#include "internal.h"

static struct sim_slab arrays = SIM_SLAB(struct CUarray_st, 65536);

bool sim_array_valid(CUarray a)
{
	return sim_slab_has(&arrays, a);
}

/* Bytes of an element of CUDA's formats: 8-, 16- and 32-bit numbers. */
static size_t format_size(int format)
{
	switch (format) {
	case 0x01: /* UNSIGNED_INT8 */
	case 0x08: /* SIGNED_INT8 */
		return 1;
	case 0x02: /* UNSIGNED_INT16 */
	case 0x09: /* SIGNED_INT16 */
	case 0x10: /* HALF */
		return 2;
	case 0x03: /* UNSIGNED_INT32 */
	case 0x0a: /* SIGNED_INT32 */
	case 0x20: /* FLOAT */
		return 4;
	default:
		return 0;
	}
}

static CUresult create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	void *base;
	size_t element = d ? format_size(d->Format) * d->NumChannels : 0;
	if (!out || !element || !d->Width || d->NumChannels > 4)
		return CUDA_ERROR_INVALID_VALUE;
	size_t height = d->Height ? d->Height : 1, depth = d->Depth ? d->Depth : 1;
	CUresult r = sim_memory_new(d->Width * element * height * depth, SIM_ARRAY, NULL, d->Flags, &base);
	if (r)
		return r;
	CUarray a = sim_slab_get(&arrays);
	if (!a) {
		sim_memory_drop(base);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	a->base = base;
	a->width = d->Width * element;
	a->height = height;
	a->depth = depth;
	a->descriptor = *d;
	*out = a;
	return CUDA_SUCCESS;
}

static CUresult destroy(CUarray a)
{
	if (!sim_array_valid(a))
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult r = sim_memory_free(a->base, SIM_ARRAY);
	sim_slab_put(&arrays, a);
	return r;
}

static CUresult descriptor(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray a)
{
	if (!out || !sim_array_valid(a))
		return CUDA_ERROR_INVALID_VALUE;
	*out = a->descriptor;
	return CUDA_SUCCESS;
}

DRIVER_SHOWN(cuArray3DCreate_v2, (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR *d), (out, d), create(out, d))
DRIVER_SHOWN(cuArrayDestroy, (CUarray a), (a), destroy(a))
DRIVER(cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR * out, CUarray a), descriptor(out, a))
