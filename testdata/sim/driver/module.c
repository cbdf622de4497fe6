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

/* Only a real GPU loads code from files. */
static CUresult module_file(const char *path)
{
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	return access(path, R_OK) ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_IMAGE;
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

static CUresult count_of(struct CUmod_st *m, unsigned *out)
{
	if (!out || !sim_slab_has(&modules, m))
		return CUDA_ERROR_INVALID_VALUE;
	*out = m->image->count;
	return CUDA_SUCCESS;
}

static CUresult enumerate(struct CUmod_st *m, CUfunction *out, unsigned n)
{
	if (!out || !sim_slab_has(&modules, m))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n && i < m->image->count; i++)
		out[i] = m->functions[i];
	return CUDA_SUCCESS;
}

static CUresult same(void **out, void *handle, bool valid)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = handle;
	return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult module_of(CUfunction f, void **out)
{
	if (!sim_function_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	return same(out, f->module, true);
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

static CUresult name_of(CUfunction f, const char **out)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_function_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	*out = f->kernel->name;
	return CUDA_SUCCESS;
}

DRIVER(cuFuncGetName, (const char **name, CUfunction f), name_of(f, name))
DRIVER(cuKernelGetName, (const char **name, CUkernel k), name_of(k, name))
DRIVER(cuModuleLoadData, (CUmodule * m, const void *image), module_load(image, m))
DRIVER(cuModuleUnload, (CUmodule m), unload(m))
DRIVER(cuModuleGetFunction, (CUfunction * f, CUmodule m, const char *name), find(m, name, f))
DRIVER(cuLibraryLoadData,
       (CUlibrary * lib, const void *image, void *jit, void **jit_values, unsigned jits, void *options,
	void **option_values, unsigned option_count),
       ((void)jit, (void)jit_values, (void)jits, (void)options, (void)option_values, (void)option_count,
	library_load(image, lib)))
DRIVER(cuLibraryUnload, (CUlibrary lib), unload((struct CUmod_st *)lib))
DRIVER(cuLibraryGetKernel, (CUkernel * k, CUlibrary lib, const char *name), find((struct CUmod_st *)lib, name, k))

#define LIB(l) ((struct CUmod_st *)(l))
#define JIT void *jit, void **jit_values, unsigned jits, void *options, void **option_values, unsigned option_count
#define NO_JIT (void)jit, (void)jit_values, (void)jits, (void)options, (void)option_values, (void)option_count

DRIVER(cuModuleLoad, (CUmodule * m, const char *path), ((void)m, module_file(path)))
DRIVER(cuModuleLoadDataEx, (CUmodule * m, const void *image, unsigned n, void *options, void **values),
       ((void)n, (void)options, (void)values, module_load(image, m)))
DRIVER(cuModuleLoadFatBinary, (CUmodule * m, const void *image), module_load(image, m))
DRIVER(cuModuleGetGlobal_v2, (CUdeviceptr * at, size_t *size, CUmodule m, const char *name), global(m, name, at, size))
DRIVER(cuModuleGetFunctionCount, (unsigned *count, CUmodule m), count_of(m, count))
DRIVER(cuModuleEnumerateFunctions, (CUfunction * out, unsigned n, CUmodule m), enumerate(m, out, n))
DRIVER(cuModuleGetLoadingMode, (int *mode), mode ? (*mode = 2 /* lazy */, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE)
DRIVER(cuLibraryLoadFromFile, (CUlibrary * lib, const char *path, JIT), (NO_JIT, (void)lib, module_file(path)))
DRIVER(cuLibraryGetModule, (CUmodule * m, CUlibrary lib), same((void **)m, lib, sim_slab_has(&modules, LIB(lib))))
DRIVER(cuLibraryGetGlobal, (CUdeviceptr * at, size_t *size, CUlibrary lib, const char *name),
       global(LIB(lib), name, at, size))
DRIVER(cuLibraryGetManaged, (CUdeviceptr * at, size_t *size, CUlibrary lib, const char *name),
       ((void)at, (void)size, (void)lib, (void)name, CUDA_ERROR_NOT_FOUND))
DRIVER(cuLibraryGetKernelCount, (unsigned *count, CUlibrary lib), count_of(LIB(lib), count))
DRIVER(cuLibraryEnumerateKernels, (CUkernel * out, unsigned n, CUlibrary lib), enumerate(LIB(lib), out, n))
DRIVER(cuKernelGetFunction, (CUfunction * f, CUkernel k), same((void **)f, k, sim_function_valid(k)))
DRIVER(cuKernelGetLibrary, (CUlibrary * lib, CUkernel k), module_of(k, (void **)lib))
DRIVER(cuFuncGetModule, (CUmodule * m, CUfunction f), module_of(f, (void **)m))
