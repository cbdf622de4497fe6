#include "internal.h"

static int launch(const void *host, dim3 g, dim3 b, void **args, size_t shared, CUstream s, bool cooperative)
{
	CUfunction f;
	int r = sim_rt_function(host, &f);
	if (r)
		return r;
	if (cooperative)
		return sim_drv.cuLaunchCooperativeKernel(f, g.x, g.y, g.z, b.x, b.y, b.z, (unsigned)shared, s, args);
	return sim_drv.cuLaunchKernel(f, g.x, g.y, g.z, b.x, b.y, b.z, (unsigned)shared, s, args, NULL);
}

static int launch_config(const cudaLaunchConfig_t *c, const void *host, void **args)
{
	CUfunction f;
	if (!c)
		return cudaErrorInvalidValue;
	int r = sim_rt_function(host, &f);
	if (r)
		return r;
	CUlaunchConfig config = {
		c->gridDim.x, c->gridDim.y, c->gridDim.z, c->blockDim.x, c->blockDim.y, c->blockDim.z,
		(unsigned)c->dynamicSmemBytes, c->stream, c->attrs, c->numAttrs,
	};
	return sim_drv.cuLaunchKernelEx(&config, f, args, NULL);
}

RUNTIME_LAUNCH(cudaLaunchKernel, (const void *func, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s),
	launch(func, grid, block, args, shared, s, false))
RUNTIME_LAUNCH(cudaLaunchCooperativeKernel, (const void *func, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s),
	launch(func, grid, block, args, shared, s, true))
RUNTIME_LAUNCH(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *func, void **args),
	launch_config(config, func, args))
