#include "internal.h"

INTERNAL int launch(const struct sim_driver *drv, const void *host, dim3 g, dim3 b, void **args, size_t shared, CUstream s,
		  bool cooperative)
{
	CUfunction f;
	int r = sim_rt_function(host, &f);
	if (r)
		return r;
	if (cooperative)
		return drv->cuLaunchCooperativeKernel(f, g.x, g.y, g.z, b.x, b.y, b.z, (unsigned)shared, s, args);
	return drv->cuLaunchKernel(f, g.x, g.y, g.z, b.x, b.y, b.z, (unsigned)shared, s, args, NULL);
}

static CUlaunchConfig config_of(const cudaLaunchConfig_t *c)
{
	return (CUlaunchConfig){
		c->gridDim.x, c->gridDim.y, c->gridDim.z, c->blockDim.x, c->blockDim.y, c->blockDim.z,
		(unsigned)c->dynamicSmemBytes, c->stream, c->attrs, c->numAttrs,
	};
}

INTERNAL int launch_config(const struct sim_driver *drv, const cudaLaunchConfig_t *c, const void *host, void **args)
{
	CUfunction f;
	if (!c)
		return cudaErrorInvalidValue;
	int r = sim_rt_function(host, &f);
	if (r)
		return r;
	CUlaunchConfig config = config_of(c);
	return drv->cuLaunchKernelEx(&config, f, args, NULL);
}

static int attributes(cudaFuncAttributes *out, const void *host)
{
	CUfunction f;
	int shared, local, values[16] = {0};
	int r = out ? sim_rt_function(host, &f) : cudaErrorInvalidValue;
	for (int i = 0; i < 16 && !r; i++)
		r = sim_drv.cuFuncGetAttribute(&values[i], i, f);
	if (r)
		return r;
	shared = values[1], local = values[3];
	*out = (cudaFuncAttributes){
		.sharedSizeBytes = (size_t)shared, .localSizeBytes = (size_t)local, .maxThreadsPerBlock = values[0],
		.numRegs = values[4], .ptxVersion = values[5], .binaryVersion = values[6],
		.maxDynamicSharedSizeBytes = values[8], .preferredShmemCarveout = values[9],
	};
	return 0;
}

/* Calls the driver's function f for the kernel of a host stub. */
#define ASK(question) \
	({ \
		CUfunction f; \
		int r_ = sim_rt_function(func, &f); \
		r_ ? r_ : (question); \
	})
#define ASK_CONFIG(question) \
	({ \
		CUlaunchConfig config = {0}; \
		if (c) \
			config = config_of(c); \
		c ? ASK(question) : cudaErrorInvalidValue; \
	})

#define LAUNCH (const void *func, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s)

RUNTIME_LAUNCH_PTSZ(cudaLaunchKernel, LAUNCH, launch(drv, func, grid, block, args, shared, s, false))

/* Ten bytes in CUDA 13's runtime: the arguments and the return address are the program's. */
__asm__(".pushsection .text\n"
	".globl __cudaLaunchKernel\n"
	".type __cudaLaunchKernel, %function\n"
	"__cudaLaunchKernel:\n"
	".cfi_startproc\n"
#ifdef __x86_64__
	"jmp cudaLaunchKernel\n"
#else
	"b cudaLaunchKernel\n"
#endif
	".cfi_endproc\n"
	".size __cudaLaunchKernel, . - __cudaLaunchKernel\n"
	".popsection\n");

RUNTIME_LAUNCH_PTSZ(cudaLaunchCooperativeKernel, LAUNCH, launch(drv, func, grid, block, args, shared, s, true))
RUNTIME_LAUNCH_PTSZ(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *func, void **args),
		    launch_config(drv, config, func, args))

RUNTIME(cudaFuncGetAttributes, (cudaFuncAttributes * out, const void *func), attributes(out, func))
RUNTIME(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *out, const void *func, int threads, size_t shared),
	ASK(sim_drv.cuOccupancyMaxActiveBlocksPerMultiprocessor(out, f, threads, shared)))
