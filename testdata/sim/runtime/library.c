/* Loading code explicitly, and getting the driver's functions by name. */
#include "internal.h"

#define JIT void *jit, void **jit_values, unsigned jits, void *options, void **option_values, unsigned option_count
#define JIT_ARGS jit, jit_values, jits, options, option_values, option_count

/* A name that is not found sets the status and is no error. */
static int entry(const char *name, void **out, unsigned version, unsigned long long flags, int *status)
{
	int found = 0;
	int r = name && out ? sim_drv.cuGetProcAddress(name, out, (int)version, flags, &found) : cudaErrorInvalidValue;
	if (!r && status)
		*status = found;
	return r;
}

RUNTIME(cudaLibraryLoadData, (CUlibrary * lib, const void *code, JIT), sim_drv.cuLibraryLoadData(lib, code, JIT_ARGS))
RUNTIME(cudaLibraryLoadFromFile, (CUlibrary * lib, const char *path, JIT),
	sim_drv.cuLibraryLoadFromFile(lib, path, JIT_ARGS))
RUNTIME(cudaLibraryUnload, (CUlibrary lib), sim_drv.cuLibraryUnload(lib))
RUNTIME(cudaLibraryGetKernel, (CUkernel * k, CUlibrary lib, const char *name), sim_drv.cuLibraryGetKernel(k, lib, name))
RUNTIME(cudaLibraryGetGlobal, (void **at, size_t *size, CUlibrary lib, const char *name),
	sim_drv.cuLibraryGetGlobal((CUdeviceptr *)at, size, lib, name))
RUNTIME(cudaLibraryGetManaged, (void **at, size_t *size, CUlibrary lib, const char *name),
	sim_drv.cuLibraryGetManaged((CUdeviceptr *)at, size, lib, name))
RUNTIME(cudaLibraryGetKernelCount, (unsigned *count, CUlibrary lib), sim_drv.cuLibraryGetKernelCount(count, lib))
RUNTIME(cudaLibraryEnumerateKernels, (CUkernel * out, unsigned n, CUlibrary lib),
	sim_drv.cuLibraryEnumerateKernels(out, n, lib))
RUNTIME(cudaKernelSetAttributeForDevice, (CUkernel k, int which, int value, int device),
	sim_drv.cuKernelSetAttribute(which, value, k, device))
RUNTIME_PTSZ(cudaGetDriverEntryPoint, (const char *name, void **out, unsigned long long flags, int *status),
	     entry(name, out, 13000, drv == &sim_drv_own && !flags ? 2 : flags, status))
RUNTIME_PTSZ(cudaGetDriverEntryPointByVersion,
	     (const char *name, void **out, unsigned version, unsigned long long flags, int *status),
	     entry(name, out, version, drv == &sim_drv_own && !flags ? 2 : flags, status))
