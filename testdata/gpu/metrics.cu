// Phases of known traffic and work, each long enough for slow counters, with idle time between them. Each phase
// prints its time on CLOCK_MONOTONIC and what it did:
//
//   phase NAME start=NS end=NS bytes=N
//
// Build: nvcc -O2 -o metrics metrics.cu -lcublas. Usage: metrics [SECONDS] [launches]
//
// launches: empty kernels; prints a line at the start, and at the end the time and the launches of each window of about 2 ms.
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                   \
	do {                                                          \
		int e = (int)(call);                                  \
		if (e) {                                              \
			fprintf(stderr, "%s: error %d\n", #call, e);  \
			exit(1);                                      \
		}                                                     \
	} while (0)

static unsigned long long now()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

__global__ void copyKernel(const float4 *from, float4 *to, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
		to[i] = from[i];
}

__global__ void spinKernel(long long cycles)
{
	for (long long start = clock64(); clock64() - start < cycles;)
		;
}

// Runs a step until the time is over. bytes are those of a step.
template <class Step> static void phase(const char *name, double seconds, double bytes, Step step)
{
	step();
	CHECK(cudaDeviceSynchronize());
	unsigned long long start = now(), end = start;
	double sum = 0;
	while (end - start < seconds * 1e9) {
		for (int i = 0; i < 4; i++)
			step();
		CHECK(cudaDeviceSynchronize());
		sum += 4 * bytes;
		end = now();
	}
	printf("phase %s start=%llu end=%llu bytes=%.0f\n", name, start, end, sum);
	fflush(stdout);
	usleep(500000);
}

// Single kernels of about 5 ms with idle time between them.
static void edges()
{
	for (int i = 0; i < 20; i++) {
		spinKernel<<<1, 1>>>(7000000);
		CHECK(cudaDeviceSynchronize());
		usleep(120000);
	}
}

__global__ void emptyKernel() {}

static void launches(double seconds)
{
	struct Window {
		unsigned long long start, end;
	};
	const int n = 500;
	std::vector<Window> windows;
	emptyKernel<<<1, 1>>>();
	CHECK(cudaDeviceSynchronize());
	puts("begin");
	fflush(stdout);
	unsigned long long start = now(), last = start;
	while (last - start < seconds * 1e9) {
		for (int i = 0; i < n; i++)
			emptyKernel<<<1, 1>>>();
		CHECK(cudaDeviceSynchronize());
		unsigned long long end = now();
		windows.push_back({last, end});
		last = end;
	}
	for (const Window &w : windows)
		printf("window start=%llu end=%llu count=%d\n", w.start, w.end, n);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 3;
	const size_t size = 1ull << 30;
	if (argc > 2) {
		launches(seconds);
		return 0;
	}
	const int n = 8192;
	float4 *a, *b;
	char *host;
	cublasHandle_t blas;
	CHECK(cudaMalloc(&a, size));
	CHECK(cudaMalloc(&b, size));
	CHECK(cudaMallocHost(&host, size));
	CHECK(cublasCreate(&blas));
	CHECK(cudaMemset(a, 0, size));
	int sms, khz = 0, bits = 0;
	CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
	CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, 0));
	CHECK(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, 0));
	printf("dram peak=%.0f\n", 2.0 * khz * 1e3 * bits / 8);
	usleep(500000);
	phase("dram", seconds, 2.0 * size, [&] { copyKernel<<<sms * 16, 512>>>(a, b, size / sizeof *a); });
	phase("h2d", seconds, size, [&] { CHECK(cudaMemcpyAsync(a, host, size, cudaMemcpyHostToDevice)); });
	phase("d2h", seconds, size, [&] { CHECK(cudaMemcpyAsync(host, a, size, cudaMemcpyDeviceToHost)); });
	const __half one = __float2half(1), zero = __float2half(0);
	phase("tensor", seconds, 0, [&] {
		CHECK(cublasHgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, (__half *)a, n, (__half *)b, n, &zero, (__half *)a + (size_t)n * n, n));
	});
	edges();
	phase("idle", 1, 0, [] { usleep(100000); });
	return 0;
}
