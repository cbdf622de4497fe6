// conditional.cu: launches graphs with conditional nodes. The body of a WHILE node runs for another number
// of rounds in each launch. The program prints the work that it issued, and the number of pieces of body work
// of each launch, in the order of the launches:
//
//	counts pid=P kernels=K copies=C sets=S
//	bodies B B B ...
//
// Usage: conditional SHAPE [N]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda_runtime.h>
#include <unistd.h>

#define CHECK(call)                                                                          \
	do {                                                                                     \
		cudaError_t err = (call);                                                            \
		if (err != cudaSuccess) {                                                            \
			fprintf(stderr, "conditional:%d: %s: %s\n", __LINE__, #call, cudaGetErrorName(err)); \
			exit(1);                                                                         \
		}                                                                                    \
	} while (0)

// The rounds of the launch that runs, and the number of launches so far.
struct rounds {
	int left, launches;
};

__global__ void top(int *x) { atomicAdd(x, 1); }
__global__ void between(int *x) { atomicAdd(x, 1); }
__global__ void body(int *x)
{
	for (long long start = clock64(); clock64() - start < 20000;)
		;
	atomicAdd(x, 1);
}

// The last kernel of a WHILE body: launch i has 1 + i % 4 rounds.
__global__ void again(cudaGraphConditionalHandle handle, rounds *r)
{
	if (r->left == 0)
		r->left = 1 + r->launches++ % 4;
	r->left--;
	cudaGraphSetConditional(handle, r->left > 0);
}

static long kernels, sets, launches;
static long bodies[4096];
static int *x;

static cudaGraphNode_t kernel(cudaGraph_t g, cudaGraphNode_t *after, void *function, void **args)
{
	cudaGraphNode_t node;
	cudaKernelNodeParams p = {};
	p.func = function, p.gridDim = dim3(1), p.blockDim = dim3(1), p.kernelParams = args;
	CHECK(cudaGraphAddKernelNode(&node, g, after, after ? 1 : 0, &p));
	return node;
}

// Adds a conditional node, and returns one of its bodies.
static cudaGraph_t conditional(cudaGraph_t g, cudaGraphNode_t *after, cudaGraphConditionalHandle handle,
			       cudaGraphConditionalNodeType type, unsigned size, unsigned chosen)
{
	cudaGraphNode_t node;
	cudaGraphNodeParams p = {};
	p.type = cudaGraphNodeTypeConditional;
	p.conditional.handle = handle, p.conditional.type = type, p.conditional.size = size;
#if CUDART_VERSION >= 13000
	CHECK(cudaGraphAddNode(&node, g, after, NULL, after ? 1 : 0, &p));
#else
	CHECK(cudaGraphAddNode(&node, g, after, after ? 1 : 0, &p));
#endif
	return p.conditional.phGraph_out[chosen];
}

static cudaGraphConditionalHandle handle(cudaGraph_t g, unsigned value)
{
	cudaGraphConditionalHandle h;
	CHECK(cudaGraphConditionalHandleCreate(&h, g, value, cudaGraphCondAssignDefault));
	return h;
}

// Adds a WHILE node with two kernels.
static void whileNode(cudaGraph_t g, cudaGraphNode_t *after)
{
	rounds *r;
	CHECK(cudaMalloc(&r, sizeof *r));
	CHECK(cudaMemset(r, 0, sizeof *r));
	sets++;
	cudaGraphConditionalHandle h = handle(g, 1);
	cudaGraph_t inside = conditional(g, after, h, cudaGraphCondTypeWhile, 1, 0);
	void *bodyArgs[] = {&x}, *againArgs[] = {&h, &r};
	cudaGraphNode_t first = kernel(inside, NULL, (void *)body, bodyArgs);
	kernel(inside, &first, (void *)again, againArgs);
}

// Adds an IF node with a kernel, a memset, a copy and an IF node of its own, and a SWITCH node with a kernel.
static void ifNodes(cudaGraph_t g)
{
	char *block;
	CHECK(cudaMalloc(&block, 4096));
	void *args[] = {&x};
	cudaGraph_t inside = conditional(g, NULL, handle(g, 1), cudaGraphCondTypeIf, 1, 0);
	cudaGraphNode_t first = kernel(inside, NULL, (void *)body, args), set, copy;
	cudaMemsetParams s = {};
	s.dst = block, s.elementSize = 1, s.width = 16, s.height = 1, s.value = 7;
	CHECK(cudaGraphAddMemsetNode(&set, inside, &first, 1, &s));
	CHECK(cudaGraphAddMemcpyNode1D(&copy, inside, &set, 1, block + 1024, block, 16, cudaMemcpyDeviceToDevice));
	cudaGraph_t deeper = conditional(inside, &copy, handle(inside, 1), cudaGraphCondTypeIf, 1, 0);
	kernel(deeper, NULL, (void *)body, args);
#if CUDART_VERSION >= 12080
	cudaGraph_t second = conditional(g, NULL, handle(g, 2), cudaGraphCondTypeSwitch, 3, 2);
	kernel(second, NULL, (void *)body, args);
#endif
}

static cudaGraphExec_t graph(const char *shape)
{
	cudaGraph_t g;
	cudaGraphExec_t exec;
	CHECK(cudaGraphCreate(&g, 0));
	void *args[] = {&x};
	if (!strcmp(shape, "if")) {
		ifNodes(g);
	} else if (!strncmp(shape, "bare", 4)) {
		whileNode(g, NULL);
	} else {
		cudaGraphNode_t node = kernel(g, NULL, (void *)top, args);
		whileNode(g, strcmp(shape, "behind") ? NULL : &node);
	}
	CHECK(cudaGraphInstantiate(&exec, g, 0));
	return exec;
}

// Launches a graph for the nth time.
static void launch(const char *shape, cudaGraphExec_t exec, cudaStream_t stream, int nth)
{
	CHECK(cudaGraphLaunch(exec, stream));
	long work = 2 * (1 + nth % 4);
	if (!strcmp(shape, "if")) { // the driver puts kernels in place of the body's memset and copy
		work = CUDART_VERSION >= 12080 ? 5 : 4;
	} else if (strncmp(shape, "bare", 4)) {
		kernels++;
	}
	kernels += work;
	bodies[launches++] = work;
}

int main(int argc, char **argv)
{
	const char *shape = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 8;
	const char *shapes[] = {"behind", "beside", "beside-queued", "bare", "bare-queued", "bare-between", "bare-two", "if"};
	bool known = false;
	for (const char *s : shapes)
		known |= !strcmp(s, shape);
	if (!known || n < 1 || n > 2048)
		return 2;
	bool two = !strcmp(shape, "bare-two"), after = !strcmp(shape, "bare-between");
	bool queued = after || strstr(shape, "queued") || !strcmp(shape, "behind");
	cudaStream_t one, other;
	CHECK(cudaMalloc(&x, sizeof *x));
	CHECK(cudaMemset(x, 0, sizeof *x));
	sets++;
	CHECK(cudaStreamCreate(&one));
	CHECK(cudaStreamCreate(&other));
	cudaGraphExec_t first = graph(shape), second = two ? graph(shape) : NULL;
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++) {
		launch(shape, first, one, i);
		if (two)
			launch(shape, second, other, i);
		if (after) {
			between<<<1, 1, 0, one>>>(x);
			kernels++;
		}
		if (!queued)
			CHECK(cudaStreamSynchronize(one));
		if (two)
			CHECK(cudaStreamSynchronize(other));
	}
	CHECK(cudaDeviceSynchronize());
	printf("counts pid=%d kernels=%ld copies=0 sets=%ld\nbodies", getpid(), kernels, sets);
	for (long i = 0; i < launches; i++)
		printf(" %ld", bodies[i]);
	printf("\n");
	return 0;
}
