/* A training loop whose batches are made by the CPU while the GPU has nothing to do: the program of `make demo`. */
#include "kernels.h"

#define STEPS 40
#define FLOATS (64 << 10)
#define US 1000L

KERNEL_STUB(forward, "_Z7forwardPKfPfi")
KERNEL_STUB(backward, "_Z8backwardPKfPfi")
static void nothing(void **args, const struct sim_launch *launch)
{
	(void)args;
	(void)launch;
}
static const struct sim_kernel kernels[] = {
	{"_Z7forwardPKfPfi", nothing, 16, 0, 0, 400 * US, 3, {8, 8, 4}},
	{"_Z8backwardPKfPfi", nothing, 16, 0, 0, 800 * US, 3, {8, 8, 4}},
};
static const struct stub stubs[] = {{forward}, {backward}};
REGISTER_KERNELS(kernels, stubs)

/* About 12 ms of arithmetic. */
static __attribute__((noinline)) void prepare_batch(float *batch, unsigned seed)
{
	for (int round = 0; round < 60; round++)
		for (int i = 0; i < FLOATS; i++) {
			seed = seed * 1664525u + 1013904223u;
			batch[i] = 0.5f * batch[i] + (float)(seed >> 8) / (float)(1 << 24);
		}
}

int main(void)
{
	float *batch, *input, *weights;
	int n = FLOATS;
	CHECK(cudaMallocHost((void **)&batch, FLOATS * sizeof *batch));
	CHECK(cudaMalloc((void **)&input, FLOATS * sizeof *input));
	CHECK(cudaMalloc((void **)&weights, FLOATS * sizeof *weights));
	dim3 grid = {FLOATS / 256, 1, 1}, block = {256, 1, 1};
	void *args[] = {&input, &weights, &n};
	for (unsigned step = 0; step < STEPS; step++) {
		prepare_batch(batch, step);
		CHECK(cudaMemcpyAsync(input, batch, FLOATS * sizeof *batch, cudaMemcpyHostToDevice, NULL));
		CHECK(cudaLaunchKernel(host_address(stubs[0]), grid, block, args, 0, NULL));
		CHECK(cudaLaunchKernel(host_address(stubs[1]), grid, block, args, 0, NULL));
		CHECK(cudaStreamSynchronize(NULL));
	}
	CHECK(cudaFree(weights));
	CHECK(cudaFree(input));
	CHECK(cudaFreeHost(batch));
	printf("trained %d steps\n", STEPS);
	return 0;
}
