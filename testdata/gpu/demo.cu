// demo.cu: a training loop whose batches are made by the CPU while the GPU has nothing to do: the program of `make demo`.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                        \
	do {                                                                   \
		cudaError_t err = (call);                                          \
		if (err != cudaSuccess) {                                          \
			fprintf(stderr, "demo: %s: %s\n", #call, cudaGetErrorName(err)); \
			exit(1);                                                       \
		}                                                                  \
	} while (0)

static const int STEPS = 40, FLOATS = 64 << 10;

__global__ void forward(const float *input, float *weights, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	for (int k = 0; i < n && k < 2000; k++)
		weights[i] = 0.99f * weights[i] + input[i];
}

__global__ void backward(const float *input, float *weights, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	for (int k = 0; i < n && k < 4000; k++)
		weights[i] -= 0.01f * weights[i] * input[i];
}

// About 12 ms of arithmetic.
static __attribute__((noinline)) void prepare_batch(float *batch, unsigned seed)
{
	for (int round = 0; round < 60; round++)
		for (int i = 0; i < FLOATS; i++) {
			seed = seed * 1664525u + 1013904223u;
			batch[i] = 0.5f * batch[i] + (float)(seed >> 8) / (float)(1 << 24);
		}
}

int main()
{
	float *batch, *input, *weights;
	CHECK(cudaMallocHost(&batch, FLOATS * sizeof *batch));
	CHECK(cudaMalloc(&input, FLOATS * sizeof *input));
	CHECK(cudaMalloc(&weights, FLOATS * sizeof *weights));
	for (int step = 0; step < STEPS; step++) {
		prepare_batch(batch, step);
		CHECK(cudaMemcpyAsync(input, batch, FLOATS * sizeof *batch, cudaMemcpyHostToDevice, 0));
		forward<<<FLOATS / 256, 256>>>(input, weights, FLOATS);
		backward<<<FLOATS / 256, 256>>>(input, weights, FLOATS);
		CHECK(cudaStreamSynchronize(0));
	}
	CHECK(cudaFree(weights));
	CHECK(cudaFree(input));
	CHECK(cudaFreeHost(batch));
	printf("trained %d steps\n", STEPS);
	return 0;
}
