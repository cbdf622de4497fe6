/* NVTX for the test programs: nvtx... functions that cost a branch without a tool
 * and go to the library that NVTX_INJECTION64_PATH names with one. */
#ifndef SIM_PROG_NVTX_H
#define SIM_PROG_NVTX_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "../include/nvtx_abi.h"

#define POINTER(module, name, result, params, args, none) static result(*nvtx_##name##_) params;
NVTX_FUNCTIONS(POINTER)
#undef POINTER

#define SLOT(module, name) [NVTX_##module##_##name] = (nvtx_function *)&nvtx_##name##_
static nvtx_function *nvtx_core_[NVTX_CORE_SIZE + 1] = {
	SLOT(CORE, MarkEx), SLOT(CORE, MarkA), SLOT(CORE, RangeStartEx), SLOT(CORE, RangeStartA), SLOT(CORE, RangeEnd),
	SLOT(CORE, RangePushEx), SLOT(CORE, RangePushA), SLOT(CORE, RangePushW), SLOT(CORE, RangePop), SLOT(CORE, NameOsThreadA),
};
static nvtx_function *nvtx_core2_[NVTX_CORE2_SIZE + 1] = {
	SLOT(CORE2, DomainMarkEx), SLOT(CORE2, DomainRangeStartEx), SLOT(CORE2, DomainRangeEnd),
	SLOT(CORE2, DomainRangePushEx), SLOT(CORE2, DomainRangePop), SLOT(CORE2, DomainRegisterStringA),
	SLOT(CORE2, DomainCreateA), SLOT(CORE2, DomainDestroy),
};
static nvtx_function *nvtx_cuda_[NVTX_CUDA_SIZE + 1] = {
	SLOT(CUDA, NameCuDeviceA), SLOT(CUDA, NameCuContextA), SLOT(CUDA, NameCuStreamA),
};
static nvtx_function *nvtx_cudart_[NVTX_CUDART_SIZE + 1] = {
	SLOT(CUDART, NameCudaDeviceA), SLOT(CUDART, NameCudaStreamA),
};
#undef SLOT

static int nvtx_module_(uint32_t module, nvtx_table *table, uint32_t *size)
{
	static const struct {
		nvtx_table table;
		uint32_t size;
	} modules[] = {
		[NVTX_MODULE_CORE] = {nvtx_core_, NVTX_CORE_SIZE}, [NVTX_MODULE_CUDA] = {nvtx_cuda_, NVTX_CUDA_SIZE},
		[NVTX_MODULE_CUDART] = {nvtx_cudart_, NVTX_CUDART_SIZE}, [NVTX_MODULE_CORE2] = {nvtx_core2_, NVTX_CORE2_SIZE},
	};
	if (module >= sizeof modules / sizeof *modules || !modules[module].table)
		return 0;
	*table = modules[module].table;
	if (size)
		*size = modules[module].size;
	return 1;
}

static const void *nvtx_export_(uint32_t table)
{
	static const nvtx_callbacks callbacks = {sizeof callbacks, nvtx_module_};
	return table == NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static void nvtx_load_(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path && *path ? dlopen(path, RTLD_LAZY) : NULL;
	int (*initialize)(nvtx_exporter) = NULL;
	if (library)
		*(void **)&initialize = dlsym(library, "InitializeInjectionNvtx2");
	if (initialize)
		initialize(nvtx_export_);
}

static inline void nvtx_ready_(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, nvtx_load_);
}

#define CALL(module, name, result, params, args, none) \
	static inline result nvtx##name params \
	{ \
		nvtx_ready_(); \
		if (!nvtx_##name##_) \
			return none; \
		return nvtx_##name##_ args; \
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* return of a void call */
NVTX_FUNCTIONS(CALL)
#pragma GCC diagnostic pop
#undef CALL

#endif
