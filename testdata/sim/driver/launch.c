#include <stdlib.h>
#include <string.h>

#include "internal.h"

static size_t padded(uint32_t size)
{
	return (size + 7) & ~(size_t)7;
}

static size_t args_size(const struct sim_kernel *k)
{
	size_t n = 0;
	for (uint32_t i = 0; i < k->params; i++)
		n += padded(k->param_size[i]);
	return n;
}

static bool args_room(struct sim_kernel_work *w, size_t n)
{
	w->args = n <= sizeof w->inline_args ? w->inline_args : malloc(n);
	return w->args != NULL;
}

/* The parameter buffer of the `extra` argument, laid out as a C struct. */
static const char *packed(void **extra)
{
	const char *buffer = NULL;
	for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2)
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
	return buffer;
}

static void copy_packed(char *to, const char *from, const struct sim_kernel *k)
{
	size_t offset = 0;
	for (uint32_t i = 0; i < k->params; i++) {
		size_t size = k->param_size[i], align = size < 8 && size ? size : 8;
		offset = (offset + align - 1) / align * align;
		memcpy(to, from + offset, size);
		to += padded(k->param_size[i]);
		offset += size;
	}
}

CUresult sim_kernel_fill(struct sim_kernel_work *w, const struct sim_kernel *k, const struct sim_launch *launch,
			 void **params, void **extra)
{
	const char *buffer = packed(extra);
	if (k->params && !params && !buffer)
		return CUDA_ERROR_INVALID_VALUE;
	w->kernel = k;
	w->launch = *launch;
	w->cooperative = false;
	if (!args_room(w, args_size(k)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	char *to = w->args;
	if (!params && buffer) {
		copy_packed(to, buffer, k);
		return CUDA_SUCCESS;
	}
	for (uint32_t i = 0; i < k->params; i++) {
		memcpy(to, params[i], k->param_size[i]);
		to += padded(k->param_size[i]);
	}
	return CUDA_SUCCESS;
}

CUresult sim_kernel_copy(struct sim_kernel_work *to, const struct sim_kernel_work *from)
{
	size_t n = args_size(from->kernel);
	*to = *from;
	if (!args_room(to, n))
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(to->args, from->args, n);
	return CUDA_SUCCESS;
}

CUresult sim_launch_check(CUfunction f, const struct sim_launch *l)
{
	if (!sim_function_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	for (int i = 0; i < 3; i++)
		if (!l->grid[i] || !l->block[i] || l->block[i] > 1024)
			return CUDA_ERROR_INVALID_VALUE;
	if ((uint64_t)l->block[0] * l->block[1] * l->block[2] > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	if (l->dynamic_shared > 227 * 1024)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, const struct sim_launch *l, CUstream stream, enum sim_default_stream which,
		       void **params, void **extra, bool cooperative)
{
	struct CUstream_st *s;
	struct sim_work *w;
	CUresult r = sim_stream_resolve(stream, which, &s);
	if (!r)
		r = sim_launch_check(f, l);
	if (!r)
		r = sim_submit_begin(s, SIM_KERNEL, &w);
	if (r)
		return r;
	sim_note_kernel(f->kernel->name);
	r = sim_kernel_fill(&w->kernel, f->kernel, l, params, extra);
	if (r) {
		sim_submit_abandon(s);
		return r;
	}
	w->kernel.cooperative = cooperative;
	sim_submit_commit(s);
	return CUDA_SUCCESS;
}

static CUresult launch_config(const CUlaunchConfig *c, CUfunction f, void **params, void **extra,
			      enum sim_default_stream which)
{
	bool cooperative = false;
	if (!c || (c->numAttrs && !c->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_launch l = {
		.grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
		.block = {c->blockDimX, c->blockDimY, c->blockDimZ},
		.dynamic_shared = c->sharedMemBytes,
	};
	for (unsigned i = 0; i < c->numAttrs; i++) {
		if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			memcpy(l.cluster, c->attrs[i].value.u32, sizeof l.cluster);
		if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
			cooperative = c->attrs[i].value.u32[0] != 0;
	}
	return launch(f, &l, c->hStream, which, params, extra, cooperative);
}

#define SHAPE (&(struct sim_launch){{gx, gy, gz}, {bx, by, bz}, {0, 0, 0}, shm})
#define COOPERATIVE_PARAMS \
	(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shm, \
	 CUstream s, void **params)
#define EX_PARAMS (const CUlaunchConfig *config, CUfunction f, void **params, void **extra)

/* The old launch functions: earlier calls set shape and parameters on the function. */
static CUresult set_shape(CUfunction f, int x, int y, int z)
{
	if (!sim_function_valid(f) || x < 1 || y < 1 || z < 1)
		return CUDA_ERROR_INVALID_VALUE;
	f->shape.block[0] = (uint32_t)x, f->shape.block[1] = (uint32_t)y, f->shape.block[2] = (uint32_t)z;
	return CUDA_SUCCESS;
}

static CUresult set_param(CUfunction f, int offset, const void *value, size_t size)
{
	if (!sim_function_valid(f) || !value || offset < 0 || (size_t)offset + size > sizeof f->legacy_params)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(f->legacy_params + offset, value, size);
	return CUDA_SUCCESS;
}

static CUresult launch_grid(CUfunction f, int width, int height, CUstream stream)
{
	if (!sim_function_valid(f) || width < 1 || height < 1)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_launch l = f->shape;
	l.grid[0] = (uint32_t)width, l.grid[1] = (uint32_t)height, l.grid[2] = 1;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, f->legacy_params, CU_LAUNCH_PARAM_END};
	return launch(f, &l, stream, SIM_LEGACY, NULL, extra, false);
}

static CUresult launch_devices(const CUDA_LAUNCH_PARAMS *list, unsigned count)
{
	CUresult r = list && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && !r; i++) {
		const CUDA_LAUNCH_PARAMS *p = &list[i];
		struct sim_launch l = {{p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ},
				       {0, 0, 0}, p->sharedMemBytes};
		r = launch(p->function, &l, p->hStream, SIM_LEGACY, p->kernelParams, NULL, true);
	}
	return r;
}

DRIVER_PTSZ(cuLaunchKernel, SIM_LAUNCH_PARAMS, launch(f, SHAPE, s, which, params, extra, false))
DRIVER_PTSZ(cuLaunchKernelEx, EX_PARAMS, launch_config(config, f, params, extra, which))
DRIVER_PTSZ(cuLaunchCooperativeKernel, COOPERATIVE_PARAMS, launch(f, SHAPE, s, which, params, NULL, true))
DRIVER(cuLaunchCooperativeKernelMultiDevice, (CUDA_LAUNCH_PARAMS * list, unsigned count, unsigned flags),
       ((void)flags, launch_devices(list, count)))
DRIVER(cuFuncSetBlockShape, (CUfunction f, int x, int y, int z), set_shape(f, x, y, z))
DRIVER(cuParamSetSize, (CUfunction f, unsigned bytes),
       sim_function_valid(f) && bytes <= sizeof f->legacy_params ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE)
DRIVER(cuParamSetv, (CUfunction f, int offset, void *value, unsigned size), set_param(f, offset, value, size))
DRIVER(cuLaunch, (CUfunction f), launch_grid(f, 1, 1, NULL))
DRIVER(cuLaunchGrid, (CUfunction f, int width, int height), launch_grid(f, width, height, NULL))
