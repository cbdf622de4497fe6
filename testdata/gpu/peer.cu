// peer.cu: copies between two GPUs, with peer access and without, and kernels on both.
//
//	counts pid=P kernels=K copies=C sets=S
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <unistd.h>

#define CHECK(call)                                                     \
	do {                                                                \
		cudaError_t err = (call);                                       \
		if (err != cudaSuccess) {                                       \
			fprintf(stderr, "peer: %s: %s\n", #call, cudaGetErrorName(err)); \
			exit(1);                                                    \
		}                                                               \
	} while (0)

__global__ void fill(int *x, int v) { x[threadIdx.x] = v; }

int main()
{
	int *x[2], host[32], possible = 0;
	long kernels = 0, copies = 0;
	cudaStream_t s[2];
	for (int d = 0; d < 2; d++) {
		CHECK(cudaSetDevice(d));
		CHECK(cudaMalloc(&x[d], sizeof host));
		CHECK(cudaStreamCreate(&s[d]));
	}
	CHECK(cudaDeviceCanAccessPeer(&possible, 0, 1));
	for (int round = 0; round < 20; round++) {
		if (round == 10 && possible)
			for (int d = 0; d < 2; d++) {
				CHECK(cudaSetDevice(d));
				CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));
			}
		int from = round % 2, to = 1 - from;
		CHECK(cudaSetDevice(from));
		fill<<<1, 32, 0, s[from]>>>(x[from], round);
		CHECK(cudaMemcpyPeerAsync(x[to], to, x[from], from, sizeof host, s[from]));
		CHECK(cudaStreamSynchronize(s[from]));
		CHECK(cudaSetDevice(to));
		CHECK(cudaMemcpy(host, x[to], sizeof host, cudaMemcpyDeviceToHost));
		// Without peer access CUDA copies through the host, in two steps.
		kernels++, copies += round >= 10 && possible ? 2 : 3;
		if (host[31] != round) {
			fprintf(stderr, "peer: %d instead of %d\n", host[31], round);
			return 1;
		}
	}
	printf("counts pid=%d kernels=%ld copies=%ld sets=0\n", getpid(), kernels, copies);
	return 0;
}
