/* Driver API only: kernels through cuLaunchKernel and cuLaunchKernelEx. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../include/cuda_sim.h"
#include "../include/image.h"

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice dev);
CUresult cuCtxSynchronize(void);
CUresult cuModuleLoadData(CUmodule *m, const void *image);
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name);
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n);
CUresult cuMemFree_v2(CUdeviceptr p);
CUresult cuMemcpyHtoD_v2(CUdeviceptr d, const void *s, size_t n);
CUresult cuMemcpyDtoH_v2(void *d, CUdeviceptr s, size_t n);
CUresult cuMemsetD32Async(CUdeviceptr d, unsigned v, size_t n, CUstream s);
CUresult cuStreamCreate(CUstream *s, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream s);
CUresult cuLaunchKernel SIM_LAUNCH_PARAMS;
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra);
CUresult cuGetErrorName(CUresult code, const char **out);

#define N 1024

static void scale(void **args, const struct sim_launch *launch)
{
	float *v = *(float **)args[0], factor = *(float *)args[1];
	(void)launch;
	for (int i = 0; i < N; i++)
		v[i] *= factor;
}

static const struct sim_kernel kernels[] = {
	{"_Z5scalePff", scale, 12, 0, 0, 0, 2, {8, 4}},
};
static const struct sim_image image = {.magic = SIM_IMAGE_MAGIC, .count = 1, .kernels = kernels};

#define CHECK(call) check((call), #call)
static void check(CUresult r, const char *call)
{
	const char *name = "?";
	if (!r)
		return;
	cuGetErrorName(r, &name);
	fprintf(stderr, "%s: %s\n", call, name);
	exit(1);
}

static void launch_ex(CUfunction f, CUstream s, void **args)
{
	CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.u32 = {2, 1, 1}};
	CUlaunchConfig config = {4, 1, 1, 256, 1, 1, 1024, s, &cluster, 1};
	CHECK(cuLaunchKernelEx(&config, f, args, NULL));
}

int main(int argc, char **argv)
{
	int n = argc > 2 && !strcmp(argv[1], "-n") ? atoi(argv[2]) : 10;
	float host[N], factor = 1;
	CUcontext ctx;
	CUmodule module;
	CUfunction f;
	CUdeviceptr v;
	CUstream s;
	for (int i = 0; i < N; i++)
		host[i] = (float)i;
	CHECK(cuInit(0));
	CHECK(cuCtxCreate_v2(&ctx, 0, 0));
	CHECK(cuModuleLoadData(&module, &image));
	CHECK(cuModuleGetFunction(&f, module, "_Z5scalePff"));
	CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc_v2(&v, sizeof host));
	CHECK(cuMemsetD32Async(v, 0, N, s));
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyHtoD_v2(v, host, sizeof host));
	void *args[] = {&v, &factor};
	for (int i = 0; i < n; i++) {
		CHECK(cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, s, args, NULL));
		launch_ex(f, s, args);
	}
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH_v2(host, v, sizeof host));
	CHECK(cuStreamDestroy_v2(s));
	CHECK(cuMemFree_v2(v));
	printf("counts kernels=%d copies=2 sets=1\n", 2 * n);
	return host[N - 1] != N - 1;
}
