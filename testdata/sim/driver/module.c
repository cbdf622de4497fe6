#include <string.h>
#include <unistd.h>

#include "internal.h"

/* Modules and libraries are one thing here: an image and its functions. */
struct CUmod_st {
	struct sim_handle handle;
	const struct sim_image *image;
	CUfunction functions[256];
	void *globals[SIM_MAX_GLOBALS]; /* device memory, allocated at the first query */
};

static struct sim_slab modules = SIM_SLAB(struct CUmod_st, 4096);
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct sim_slab functions = SIM_SLAB(struct CUfunc_st, 65536);

bool sim_function_valid(CUfunction f)
{
	return sim_slab_has(&functions, f);
}

static CUresult load(const void *data, struct CUmod_st **out)
{
	const struct sim_image *image = data;
	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (image->magic != SIM_IMAGE_MAGIC || image->count > sizeof((*out)->functions) / sizeof *(*out)->functions ||
	    image->global_count > SIM_MAX_GLOBALS)
		return CUDA_ERROR_INVALID_IMAGE;
	struct CUmod_st *m = sim_slab_get(&modules);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->image = image;
	for (uint32_t i = 0; i < image->count; i++) {
		m->functions[i] = sim_slab_get(&functions);
		if (!m->functions[i])
			return CUDA_ERROR_OUT_OF_MEMORY;
		m->functions[i]->kernel = &image->kernels[i];
		m->functions[i]->module = m;
		m->functions[i]->dynamic_shared = 48 * 1024;
		m->functions[i]->carveout = -1;
		m->functions[i]->shape.block[0] = m->functions[i]->shape.block[1] = m->functions[i]->shape.block[2] = 1;
	}
	*out = m;
	return CUDA_SUCCESS;
}

static CUresult unload(struct CUmod_st *m)
{
	if (!sim_slab_has(&modules, m))
		return CUDA_ERROR_INVALID_HANDLE;
	for (uint32_t i = 0; i < m->image->count; i++)
		sim_slab_put(&functions, m->functions[i]);
	sim_slab_put(&modules, m);
	return CUDA_SUCCESS;
}

static CUresult find(struct CUmod_st *m, const char *name, CUfunction *out)
{
	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_slab_has(&modules, m))
		return CUDA_ERROR_INVALID_HANDLE;
	for (uint32_t i = 0; i < m->image->count; i++) {
		if (!strcmp(m->image->kernels[i].name, name)) {
			*out = m->functions[i];
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_NOT_FOUND;
}

static CUresult global(struct CUmod_st *m, const char *name, CUdeviceptr *at, size_t *size)
{
	CUresult r = CUDA_SUCCESS;
	uint32_t i = 0;
	if (!name || !sim_slab_has(&modules, m))
		return name ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
	while (i < m->image->global_count && strcmp(m->image->globals[i].name, name))
		i++;
	if (i == m->image->global_count)
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&mu);
	if (!m->globals[i])
		r = sim_memory_new(m->image->globals[i].size, SIM_DEVICE_MEMORY, NULL, 0, &m->globals[i]);
	pthread_mutex_unlock(&mu);
	if (!r && at)
		*at = (CUdeviceptr)m->globals[i];
	if (!r && size)
		*size = m->image->globals[i].size;
	return r;
}

static CUresult module_load(const void *image, CUmodule *out)
{
	if (!sim_context_current())
		return sim_ready() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
	return load(image, out);
}

static CUresult library_load(const void *image, CUlibrary *out)
{
	return load(image, (struct CUmod_st **)out);
}

DRIVER(cuModuleLoadData, (CUmodule * m, const void *image), module_load(image, m))
DRIVER(cuModuleUnload, (CUmodule m), unload(m))
DRIVER(cuModuleGetFunction, (CUfunction * f, CUmodule m, const char *name), find(m, name, f))
DRIVER(cuLibraryLoadData,
       (CUlibrary * lib, const void *image, void *jit, void **jit_values, unsigned jits, void *options,
	void **option_values, unsigned option_count),
       ((void)jit, (void)jit_values, (void)jits, (void)options, (void)option_values, (void)option_count,
	library_load(image, lib)))
DRIVER(cuLibraryGetKernel, (CUkernel * k, CUlibrary lib, const char *name), find((struct CUmod_st *)lib, name, k))

#define LIB(l) ((struct CUmod_st *)(l))
DRIVER(cuLibraryGetGlobal, (CUdeviceptr * at, size_t *size, CUlibrary lib, const char *name),
       global(LIB(lib), name, at, size))
