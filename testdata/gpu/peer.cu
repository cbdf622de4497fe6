// peer.cu: copies between two GPUs, with peer access and without, and kernels on both.
//
//	counts pid=P kernels=K copies=C sets=S
//
// peer nvlink [SECONDS]: large copies from GPU 0 to GPU 1 for SECONDS (default: 2), then as long back, with idle time around
// each. Prints for each direction its time on CLOCK_MONOTONIC and the bytes sent, for metrics.py:
//
//	phase nvlink_to_1 start=NS end=NS bytes=N
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
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

static unsigned long long now()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void nvlink(double seconds)
{
	const size_t size = 1ull << 30;
	char *memory[2];
	for (int d = 0; d < 2; d++) {
		int possible = 0;
		CHECK(cudaDeviceCanAccessPeer(&possible, d, 1 - d));
		if (!possible) {
			fprintf(stderr, "peer: GPU %d cannot reach the memory of GPU %d\n", d, 1 - d);
			exit(1);
		}
		CHECK(cudaSetDevice(d));
		CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));
		CHECK(cudaMalloc(&memory[d], size));
		CHECK(cudaMemset(memory[d], 0, size));
		CHECK(cudaDeviceSynchronize());
	}
	sleep(4); // PM sampling begins within this time
	CHECK(cudaSetDevice(0));
	for (int to = 1; to >= 0; to--) {
		unsigned long long start = now(), end = start, bytes = 0;
		while (end - start < seconds * 1e9) {
			for (int i = 0; i < 4; i++)
				CHECK(cudaMemcpyPeerAsync(memory[to], to, memory[1 - to], 1 - to, size));
			CHECK(cudaDeviceSynchronize());
			bytes += 4 * size;
			end = now();
		}
		printf("phase nvlink_to_%d start=%llu end=%llu bytes=%llu\n", to, start, end, bytes);
		fflush(stdout);
		sleep(1);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "nvlink") == 0) {
		nvlink(argc > 2 ? atof(argv[2]) : 2);
		return 0;
	}
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
