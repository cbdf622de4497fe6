/* A bit of everything: streams, copies both ways, memsets, events, a graph, a host
 * function, driver calls through a library opened at run time, and calls that
 * fail (not with --no-errors). */
#include <dlfcn.h>
#include <string.h>

#include "kernels.h"
#include "options.h"

#define N 4096
#define STREAMS 3
#define ROUNDS 20

static struct {
	int kernels, copies, sets;
} counts;

static void fill_body(void **args, const struct sim_launch *launch)
{
	int *v = *(int **)args[0], value = *(int *)args[1];
	(void)launch;
	for (int i = 0; i < N; i++)
		v[i] = value;
}

static void add_body(void **args, const struct sim_launch *launch)
{
	int *to = *(int **)args[0];
	const int *from = *(const int **)args[1];
	(void)launch;
	for (int i = 0; i < N; i++)
		to[i] += from[i];
}

/* void fill(int *, int); template <typename T> void reduce::add(T *, const T *) */
KERNEL_STUB(fill, "_Z4fillPii")
KERNEL_STUB(add, "_ZN6reduce3addIiEEvPT_PKS1_")
static const struct sim_kernel kernels[] = {
	{"_Z4fillPii", fill_body, 8, 0, 0, 3000, 2, {8, 4}},
	{"_ZN6reduce3addIiEEvPT_PKS1_", add_body, 24, 4096, 16, 9000, 2, {8, 8}},
};
static const struct stub stubs[] = {{fill}, {add}};
REGISTER_KERNELS(kernels, stubs)

static cudaStream_t streams[STREAMS];
static int *buffers[STREAMS], *pinned;

static void launch(int which, cudaStream_t s, void **args)
{
	dim3 grid = {N / 256, 1, 1}, block = {128, 2, 1};
	CHECK(cudaLaunchKernel(host_address(stubs[which]), grid, block, args, 256, s));
	counts.kernels++;
}

static void setup(void)
{
	CHECK(cudaStreamCreate(&streams[0]));
	CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithPriority(&streams[2], cudaStreamNonBlocking, -1));
	CHECK(cudaMallocHost((void **)&pinned, N * sizeof(int)));
	for (int i = 0; i < STREAMS; i++)
		CHECK(cudaMalloc((void **)&buffers[i], N * sizeof(int)));
}

/* Every stream fills its buffer; the first adds the others', after events. */
static void round_of_work(cudaEvent_t *done, int value)
{
	for (int i = 0; i < STREAMS; i++) {
		void *args[] = {&buffers[i], &value};
		CHECK(cudaMemsetAsync(buffers[i], 0, N * sizeof(int), streams[i]));
		counts.sets++;
		launch(0, streams[i], args);
		CHECK(cudaEventRecord(done[i], streams[i]));
	}
	for (int i = 1; i < STREAMS; i++) {
		void *args[] = {&buffers[0], &buffers[i]};
		CHECK(cudaStreamWaitEvent(streams[0], done[i], 0));
		launch(1, streams[0], args);
	}
	CHECK(cudaMemcpyAsync(pinned, buffers[0], N * sizeof(int), cudaMemcpyDeviceToHost, streams[0]));
	CHECK(cudaMemcpyAsync(buffers[1], buffers[0], N * sizeof(int), cudaMemcpyDeviceToDevice, streams[0]));
	counts.copies += 2;
	CHECK(cudaStreamSynchronize(streams[0]));
}

static int rounds(void)
{
	cudaEvent_t done[STREAMS];
	float ms;
	int bad = 0;
	for (int i = 0; i < STREAMS; i++)
		CHECK(cudaEventCreate(&done[i]));
	for (int r = 1; r <= ROUNDS; r++) {
		round_of_work(done, r);
		bad += pinned[0] != r * STREAMS || pinned[N - 1] != r * STREAMS;
	}
	CHECK(cudaEventSynchronize(done[0]));
	CHECK(cudaEventSynchronize(done[1]));
	CHECK(cudaEventElapsedTime(&ms, done[0], done[1]));
	for (int i = 0; i < STREAMS; i++)
		CHECK(cudaEventDestroy(done[i]));
	return bad;
}

/* Two nodes, captured once, launched several times. */
static int graph(void)
{
	cudaGraph_t g;
	cudaGraphExec_t exec;
	int value = 5;
	void *fill_args[] = {&buffers[2], &value}, *add_args[] = {&buffers[2], &buffers[2]};
	CHECK(cudaStreamBeginCapture(streams[2], 0));
	launch(0, streams[2], fill_args);
	launch(1, streams[2], add_args);
	counts.kernels -= 2;
	CHECK(cudaStreamEndCapture(streams[2], &g));
	CHECK(cudaGraphInstantiate(&exec, g, 0));
	for (int i = 0; i < 4; i++) {
		CHECK(cudaGraphLaunch(exec, streams[2]));
		counts.kernels += 2;
	}
	CHECK(cudaMemcpy(pinned, buffers[2], N * sizeof(int), cudaMemcpyDeviceToHost));
	counts.copies++;
	CHECK(cudaStreamSynchronize(streams[2]));
	CHECK(cudaMemcpy(pinned, buffers[2], N * sizeof(int), cudaMemcpyDeviceToHost));
	counts.copies++;
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(g));
	return pinned[0] != 2 * value;
}

static void called(void *data)
{
	*(volatile int *)data = 1;
}

static int host_function(void)
{
	static volatile int ran;
	CHECK(cudaLaunchHostFunc(streams[1], called, (void *)(uintptr_t)&ran));
	CHECK(cudaStreamSynchronize(streams[1]));
	return !ran;
}

/* A library that reaches the driver only by dlopen. */
static int driver(void)
{
	CUresult (*load)(CUmodule *, const void *), (*function)(CUfunction *, CUmodule, const char *);
	CUresult(*launch_kernel) SIM_LAUNCH_PARAMS;
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	CUmodule m;
	CUfunction f;
	int value = 9;
	void *args[] = {&buffers[1], &value};
	if (!lib)
		return 1;
	*(void **)&load = dlsym(lib, "cuModuleLoadData");
	*(void **)&function = dlsym(lib, "cuModuleGetFunction");
	*(void **)&launch_kernel = dlsym(lib, "cuLaunchKernel");
	if (load(&m, &image_) || function(&f, m, "_Z4fillPii"))
		return 1;
	for (int i = 0; i < 3; i++) {
		if (launch_kernel(f, N / 256, 1, 1, 256, 1, 1, 0, streams[1], args, NULL))
			return 1;
		counts.kernels++;
	}
	return 0;
}

static int errors(void)
{
	static int not_a_kernel;
	dim3 one = {1, 1, 1};
	void *p;
	int bad = cudaLaunchKernel(&not_a_kernel, one, one, NULL, 0, NULL) != cudaErrorInvalidResourceHandle;
	bad += cudaGetLastError() != cudaErrorInvalidResourceHandle || cudaGetLastError() != cudaSuccess;
	bad += cudaStreamSynchronize((cudaStream_t)0x1234) != cudaErrorInvalidResourceHandle;
	bad += cudaMalloc(&p, (size_t)1 << 60) != cudaErrorMemoryAllocation;
	bad += cudaFree((void *)0x1000) != cudaErrorInvalidValue;
	bad += cudaMemcpy(buffers[0], pinned, (size_t)1 << 40, cudaMemcpyHostToDevice) != cudaErrorInvalidValue;
	cudaGetLastError();
	return bad;
}

int main(int argc, char **argv)
{
	setup();
	memset(pinned, 1, N * sizeof(int));
	CHECK(cudaMemcpy(buffers[0], pinned, N * sizeof(int), cudaMemcpyHostToDevice));
	CHECK(cudaMemset(buffers[1], 0, N * sizeof(int)));
	counts.copies++;
	counts.sets++;
	int bad = rounds() + graph() + host_function() + driver();
	if (!option_flag(argc, argv, "--no-errors"))
		bad += errors();
	CHECK(cudaDeviceSynchronize());
	bad += *buffers[1] != 9;
	for (int i = 0; i < STREAMS; i++) {
		CHECK(cudaFree(buffers[i]));
		CHECK(cudaStreamDestroy(streams[i]));
	}
	CHECK(cudaFreeHost(pinned));
	printf("counts kernels=%d copies=%d sets=%d\n", counts.kernels, counts.copies, counts.sets);
	return bad != 0;
}
