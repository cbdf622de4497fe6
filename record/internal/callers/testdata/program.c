// A program with the simulated runtime. It says what it calls, "in cudaMalloc", and waits at the end
// until its input ends.
#include <string.h>

#include "../../../../testdata/sim/prog/kernels.h"

int cuLaunchKernel(void);

KERNEL_STUB(empty, "_Z5emptyv")
static void body(void **args, const struct sim_launch *launch)
{
	(void)args, (void)launch;
}
static const struct sim_kernel kernels[] = {{"_Z5emptyv", body, 0, 0, 0, 0, 0, {0}}};
static const struct stub stubs[] = {{empty}};
REGISTER_KERNELS(kernels, stubs)

static char memory[4096];
static struct CUarray_st *array = (struct CUarray_st *)memory;

#define CALL(name, ...) (puts("in " #name), name(__VA_ARGS__))

__attribute__((noinline)) static void calls(void)
{
	void *p, *args[1] = {0};
	dim3 one = {1, 1, 1};
	CALL(cudaMalloc, &p, 64);
	CALL(cudaLaunchKernel, host_address(stubs[0]), one, one, args, 0, NULL);
	CALL(cudaLaunchKernel_ptsz, host_address(stubs[0]), one, one, args, 0, NULL);
	CALL(cudaLaunchCooperativeKernel, host_address(stubs[0]), one, one, args, 0, NULL);
	cudaLaunchConfig_t config = {.gridDim = one, .blockDim = one};
	CALL(cudaLaunchKernelExC, &config, host_address(stubs[0]), args);
	for (int kind = cudaMemcpyHostToHost; kind <= cudaMemcpyDefault; kind++) {
		CALL(cudaMemcpy, memory, memory + 64, 8, kind);
		CALL(cudaMemcpyAsync, memory, memory + 64, 8, kind, NULL);
	}
	CALL(cudaMemcpy2D, memory, 8, memory + 64, 8, 8, 2, cudaMemcpyDefault);
	CALL(cudaMemcpy2DAsync, memory, 8, memory + 64, 8, 8, 2, cudaMemcpyDefault, NULL);
	CALL(cudaMemcpyPeer, memory, 0, memory + 64, 0, 8);
	CALL(cudaMemcpyToArray, array, 0, 0, memory, 8, cudaMemcpyHostToDevice);
	CALL(cudaMemset, memory, 0, 8);
	CALL(cudaMemsetAsync, memory, 0, 8, NULL);
	CALL(cudaMemset2D, memory, 8, 0, 8, 2);
	CALL(cudaLaunchHostFunc, NULL, NULL, NULL);
	CALL(cudaStreamSynchronize, NULL);
	CALL(cudaDeviceSynchronize);
	puts("in nothing");
	cuLaunchKernel();
	CALL(cudaFree, p);
}

int main(void)
{
	calls();
	puts("done");
	fflush(stdout);
	getchar();
	return 0;
}
