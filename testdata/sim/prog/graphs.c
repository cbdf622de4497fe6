/* A graph that is captured on two streams, uploaded, launched N times, updated
 * half-way; and one that is built node by node, with a child. */
#include "options.h"
#include "work.h"

#define BYTES (64 * sizeof(int))

static cudaStream_t first, second;
static int *cell, *block, *pinned;
static struct counts issued;

static void tick_on(cudaStream_t s)
{
	dim3 one = {1, 1, 1};
	void *args[] = {&cell};
	CHECK(cudaLaunchKernel(host_address(stubs[0]), one, one, args, 0, s));
}

/* Two kernels and a copy on the first stream, a memset on the second. */
static cudaGraph_t capture(void)
{
	cudaEvent_t forked, joined;
	cudaGraph_t g;
	CHECK(cudaEventCreate(&forked));
	CHECK(cudaEventCreate(&joined));
	CHECK(cudaStreamBeginCapture(first, 0));
	tick_on(first);
	CHECK(cudaEventRecord(forked, first));
	CHECK(cudaStreamWaitEvent(second, forked, 0));
	CHECK(cudaMemsetAsync(block, 7, BYTES, second));
	CHECK(cudaEventRecord(joined, second));
	CHECK(cudaStreamWaitEvent(first, joined, 0));
	tick_on(first);
	CHECK(cudaMemcpyAsync(pinned, cell, sizeof(int), cudaMemcpyDeviceToHost, first));
	CHECK(cudaStreamEndCapture(first, &g));
	CHECK(cudaEventDestroy(forked));
	CHECK(cudaEventDestroy(joined));
	return g;
}

static void launch(cudaGraphExec_t e, long n, struct counts each)
{
	for (long i = 0; i < n; i++) {
		CHECK(cudaGraphLaunch(e, first));
		issued = counts_add(issued, each);
	}
	CHECK(cudaStreamSynchronize(first));
}

static int captured(long n)
{
	cudaGraphExecUpdateResultInfo info;
	cudaGraphExec_t e;
	cudaGraph_t g = capture(), again = capture();
	CHECK(cudaGraphInstantiate(&e, g, 0));
	CHECK(cudaGraphUpload(e, first));
	launch(e, n / 2, (struct counts){2, 1, 1});
	CHECK(cudaGraphExecUpdate(e, again, &info));
	launch(e, n - n / 2, (struct counts){2, 1, 1});
	CHECK(cudaGraphExecDestroy(e));
	CHECK(cudaGraphDestroy(g));
	CHECK(cudaGraphDestroy(again));
	return info.result != 0 || *pinned != 2 * n || block[63] != 0x07070707;
}

/* A memset, then a kernel, then a graph of one kernel. */
static int built(long launches)
{
	void *args[] = {&cell};
	cudaKernelNodeParams kernel = {(void *)(uintptr_t)host_address(stubs[0]), {1, 1, 1}, {1, 1, 1}, 0, args, NULL};
	cudaMemsetParams set = {.dst = (CUdeviceptr)cell, .elementSize = 4, .width = 1, .height = 1};
	cudaGraphNode_t nodes[3];
	cudaGraphExec_t e;
	cudaGraph_t g, child;
	CHECK(cudaGraphCreate(&child, 0));
	CHECK(cudaGraphAddKernelNode(&nodes[0], child, NULL, 0, &kernel));
	CHECK(cudaGraphCreate(&g, 0));
	CHECK(cudaGraphAddMemsetNode(&nodes[0], g, NULL, 0, &set));
	CHECK(cudaGraphAddKernelNode(&nodes[1], g, &nodes[0], 1, &kernel));
	CHECK(cudaGraphAddChildGraphNode(&nodes[2], g, &nodes[1], 1, child));
	CHECK(cudaGraphInstantiate(&e, g, 0));
	launch(e, launches, (struct counts){2, 0, 1});
	CHECK(cudaGraphExecKernelNodeSetParams(e, nodes[1], &kernel));
	launch(e, 1, (struct counts){2, 0, 1});
	CHECK(cudaGraphExecDestroy(e));
	CHECK(cudaGraphDestroy(g));
	CHECK(cudaGraphDestroy(child));
	return *cell != 2;
}

int main(int argc, char **argv)
{
	long n = option_number(argc, argv, "-n", 20, 2);
	CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
	CHECK(cudaMalloc((void **)&cell, sizeof *cell));
	CHECK(cudaMalloc((void **)&block, BYTES));
	CHECK(cudaMallocHost((void **)&pinned, BYTES));
	CHECK(cudaMemset(cell, 0, sizeof *cell));
	issued.sets++;
	int bad = captured(n) + built(3);
	CHECK(cudaFree(cell));
	CHECK(cudaFree(block));
	CHECK(cudaFreeHost(pinned));
	counts_print("counts", issued);
	printf("graphs launches=%ld\n", n + 4);
	return bad != 0;
}
