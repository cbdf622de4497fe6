// streams.cu: three streams, copies both ways, memsets, several kernels, one of
// them a template, all checked. It prints the work that it issued, for comparison
// with a recording:
//
//	counts kernels=K copies=C sets=S
//
// Usage: streams [-n ROUNDS]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

#define CHECK(call)                                                        \
	do {                                                                   \
		cudaError_t err = (call);                                          \
		if (err != cudaSuccess) {                                          \
			fprintf(stderr, "streams: %s: %s\n", #call, cudaGetErrorName(err)); \
			exit(1);                                                       \
		}                                                                  \
	} while (0)

template <typename T> __global__ void axpy(T a, const T *x, T *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] = a * x[i] + y[i];
}

__global__ void addOne(float *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] += 1.0f;
}

namespace reduce {
__global__ void blockSum(const float *x, float *out, int n)
{
	extern __shared__ float part[];
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	part[threadIdx.x] = i < n ? x[i] : 0;
	__syncthreads();
	for (int s = blockDim.x / 2; s > 0; s /= 2) {
		if (threadIdx.x < s)
			part[threadIdx.x] += part[threadIdx.x + s];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		atomicAdd(out, part[0]);
}
} // namespace reduce

static const int N = 1 << 16, THREADS = 256, STREAMS = 3;

int main(int argc, char **argv)
{
	int rounds = argc == 3 && !strcmp(argv[1], "-n") ? atoi(argv[2]) : 20;
	long kernels = 0, copies = 0, sets = 0;
	float *hx, *hy, *x[STREAMS], *y[STREAMS], *sum[STREAMS], total[STREAMS];
	cudaStream_t stream[STREAMS];

	CHECK(cudaMallocHost(&hx, N * sizeof(float)));
	CHECK(cudaMallocHost(&hy, N * sizeof(float)));
	for (int i = 0; i < N; i++)
		hx[i] = 1.0f;
	for (int s = 0; s < STREAMS; s++) {
		CHECK(cudaStreamCreate(&stream[s]));
		CHECK(cudaMalloc(&x[s], N * sizeof(float)));
		CHECK(cudaMalloc(&y[s], N * sizeof(float)));
		CHECK(cudaMalloc(&sum[s], sizeof(float)));
	}
	for (int r = 0; r < rounds; r++) {
		for (int s = 0; s < STREAMS; s++) {
			CHECK(cudaMemcpyAsync(x[s], hx, N * sizeof(float), cudaMemcpyHostToDevice, stream[s]));
			CHECK(cudaMemsetAsync(y[s], 0, N * sizeof(float), stream[s]));
			CHECK(cudaMemsetAsync(sum[s], 0, sizeof(float), stream[s]));
			axpy<float><<<N / THREADS, THREADS, 0, stream[s]>>>(2.0f, x[s], y[s], N);
			addOne<<<N / THREADS, THREADS, 0, stream[s]>>>(y[s], N);
			reduce::blockSum<<<N / THREADS, THREADS, THREADS * sizeof(float), stream[s]>>>(y[s], sum[s], N);
			CHECK(cudaGetLastError());
			CHECK(cudaMemcpyAsync(hy, y[s], N * sizeof(float), cudaMemcpyDeviceToHost, stream[s]));
			kernels += 3, copies += 2, sets += 2;
		}
		CHECK(cudaStreamSynchronize(stream[r % STREAMS]));
	}
	CHECK(cudaDeviceSynchronize());
	for (int s = 0; s < STREAMS; s++) {
		CHECK(cudaMemcpy(&total[s], sum[s], sizeof(float), cudaMemcpyDeviceToHost));
		copies++;
		if (total[s] != 3.0f * N) {
			fprintf(stderr, "streams: stream %d sums to %g, not %g\n", s, total[s], 3.0f * N);
			return 1;
		}
	}
	printf("counts kernels=%ld copies=%ld sets=%ld\n", kernels, copies, sets);
	return 0;
}
