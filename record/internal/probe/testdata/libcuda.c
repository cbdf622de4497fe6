/* A stand-in for libcuda.so.1: CUDA's names and prototypes, no GPU. */
#include <stddef.h>
#include <stdint.h>

/* The program's hook is called inside the functions that have a stream. */
__attribute__((weak)) void during_call(uintptr_t stream);

static int inside(uintptr_t stream)
{
	if (during_call)
		during_call(stream);
	return 0;
}

int cuLaunchKernel(uintptr_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shm,
		   uintptr_t stream, void **params, void **extra)
{
	(void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shm, (void)params, (void)extra;
	return stream ? inside(stream) : 0;
}

/* One address with two names, as libraries export some. */
int cuLaunchKernel_ptsz(uintptr_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uintptr_t, void **, void **)
	__attribute__((alias("cuLaunchKernel")));

int cuLaunchKernelEx(const void *config, uintptr_t f, void **params, void **extra)
{
	(void)config, (void)f, (void)params, (void)extra;
	return 0;
}

int cuGraphLaunch(uintptr_t graph, uintptr_t stream)
{
	(void)graph;
	return stream ? inside(stream) : 0;
}

int cuMemcpy3D_v2(const void *copy)
{
	return copy == NULL;
}

int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
	if (bytes == 0)
		return 1;
	*out = 0x7000000000ull + bytes;
	return 0;
}

int cuStreamSynchronize(uintptr_t stream)
{
	return inside(stream);
}

int cuModuleGetFunction(uintptr_t *function, uintptr_t module, const char *name)
{
	if (!name[0])
		return 500;
	*function = module + (unsigned char)name[0];
	return 0;
}

int cuKernelGetFunction(uintptr_t *function, uintptr_t kernel)
{
	*function = kernel + 1000;
	return 0;
}

int cuProfilerStart(void)
{
	return 0;
}

int cuProfilerStop(void)
{
	return 0;
}
