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

/* The buffer of the extra form, where the parameters lie as in a C struct. */
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

static CUresult check(CUfunction f, const struct sim_launch *l)
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
		r = check(f, l);
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

DRIVER(cuLaunchKernel, SIM_LAUNCH_PARAMS, launch(f, SHAPE, s, SIM_LEGACY, params, extra, false))
DRIVER(cuLaunchKernel_ptsz, SIM_LAUNCH_PARAMS, launch(f, SHAPE, s, SIM_PTDS, params, extra, false))
DRIVER(cuLaunchKernelEx, EX_PARAMS, launch_config(config, f, params, extra, SIM_LEGACY))
DRIVER(cuLaunchKernelEx_ptsz, EX_PARAMS, launch_config(config, f, params, extra, SIM_PTDS))
DRIVER(cuLaunchCooperativeKernel, COOPERATIVE_PARAMS, launch(f, SHAPE, s, SIM_LEGACY, params, NULL, true))
DRIVER(cuLaunchCooperativeKernel_ptsz, COOPERATIVE_PARAMS, launch(f, SHAPE, s, SIM_PTDS, params, NULL, true))
