// occupancy.cu: launches kernels of many shapes, and asks CUDA for the occupancy of each. A line a
// launch, in their order:
//
//	launch blocks=N registers=R static=S dynamic=D threads=T
//
// and for the device, what deviceProperties of a Chrome trace has:
//
//	device NAME=VALUE
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <unistd.h>

#define CHECK(call)                                                          \
	do {                                                                     \
		cudaError_t err = (call);                                            \
		if (err != cudaSuccess) {                                            \
			fprintf(stderr, "occupancy: %s: %s\n", #call, cudaGetErrorName(err)); \
			exit(1);                                                         \
		}                                                                    \
	} while (0)

// Keeps VALUES numbers alive, so that a thread takes about as many registers; SHARED bytes are static.
template <int VALUES, int SHARED> __global__ void kernel(float *x, int rounds)
{
	__shared__ char shared[SHARED > 0 ? SHARED : 1];
	float v[VALUES];
#pragma unroll
	for (int i = 0; i < VALUES; i++)
		v[i] = x[i];
	if (SHARED > 0)
		shared[threadIdx.x % SHARED] = (char)rounds;
	for (int r = 0; r < rounds; r++)
#pragma unroll
		for (int i = 0; i < VALUES; i++)
			v[i] = v[i] * v[(i + 1) % VALUES] + (float)r;
	__syncthreads();
	float sum = SHARED > 0 ? shared[rounds % (SHARED > 0 ? SHARED : 1)] : 0;
#pragma unroll
	for (int i = 0; i < VALUES; i++)
		sum += v[i];
	if (rounds > 0)
		x[threadIdx.x] = sum;
}

static int most_dynamic;
static float *x;
static long launches;

template <int VALUES, int SHARED> static void shapes()
{
	static const int threads[] = {1, 32, 33, 64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024};
	static const int dynamic[] = {0, 1, 127, 128, 1000, 1024, 4096, 8 << 10, 12345, 16 << 10, 32 << 10, 48 << 10, 64 << 10, 98 << 10, 113 << 10, 160 << 10, 227 << 10};
	cudaFuncAttributes a;
	CHECK(cudaFuncGetAttributes(&a, kernel<VALUES, SHARED>));
	int most = most_dynamic - (int)a.sharedSizeBytes;
	CHECK(cudaFuncSetAttribute(kernel<VALUES, SHARED>, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
	for (int t : threads)
		for (int d : dynamic) {
			int blocks = 0;
			if (t > a.maxThreadsPerBlock || d > most)
				continue;
			CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel<VALUES, SHARED>, t, d));
			kernel<VALUES, SHARED><<<1, t, d>>>(x, 0);
			CHECK(cudaGetLastError());
			printf("launch blocks=%d registers=%d static=%d dynamic=%d threads=%d\n", blocks, a.numRegs, (int)a.sharedSizeBytes, d, t);
			launches++;
		}
}

static int attribute(const char *name, cudaDeviceAttr a)
{
	int value = 0;
	CHECK(cudaDeviceGetAttribute(&value, a, 0));
	printf("device %s=%d\n", name, value);
	return value;
}

int main()
{
	CHECK(cudaMalloc(&x, 1024 * sizeof *x));
	attribute("computeMajor", cudaDevAttrComputeCapabilityMajor);
	attribute("computeMinor", cudaDevAttrComputeCapabilityMinor);
	attribute("maxThreadsPerBlock", cudaDevAttrMaxThreadsPerBlock);
	attribute("maxThreadsPerMultiprocessor", cudaDevAttrMaxThreadsPerMultiProcessor);
	attribute("regsPerBlock", cudaDevAttrMaxRegistersPerBlock);
	attribute("regsPerMultiprocessor", cudaDevAttrMaxRegistersPerMultiprocessor);
	attribute("warpSize", cudaDevAttrWarpSize);
	attribute("sharedMemPerBlock", cudaDevAttrMaxSharedMemoryPerBlock);
	attribute("sharedMemPerMultiprocessor", cudaDevAttrMaxSharedMemoryPerMultiprocessor);
	attribute("numSms", cudaDevAttrMultiProcessorCount);
	most_dynamic = attribute("sharedMemPerBlockOptin", cudaDevAttrMaxSharedMemoryPerBlockOptin);
	shapes<1, 0>();
	shapes<12, 0>();
	shapes<28, 100>();
	shapes<44, 0>();
	shapes<60, 4096>();
	shapes<92, 0>();
	shapes<124, 1000>();
	shapes<200, 0>();
	CHECK(cudaDeviceSynchronize());
	printf("counts pid=%d kernels=%ld copies=0 sets=0\n", (int)getpid(), launches);
	return 0;
}
