#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
#include <cuda.h>
#include <cuda_runtime.h>
#define C(x) do { auto e_ = (x); if (e_) { printf("%s: error %d line %d\n", #x, (int)e_, __LINE__); exit(1);} } while (0)
template <int L> __global__ void k(int *p) { if (p && threadIdx.x == 9999) *p = L; }
__global__ void setc(cudaGraphConditionalHandle h, int *n) { int v = --*n; cudaGraphSetConditional(h, v > 0); }
static int next_ = 1;
// each launch has a grid of its own: it names its line
#define K(L, s) k<L><<<next_++, 32, 0, s>>>(nullptr)
static void twelve(cudaStream_t a, cudaStream_t b, cudaStream_t c, cudaEvent_t e1, cudaEvent_t e2, cudaEvent_t e3, cudaEvent_t e4)
{
	K(1, a); C(cudaEventRecord(e1, a)); C(cudaStreamWaitEvent(b, e1)); K(2, b); K(3, a); C(cudaEventRecord(e2, b)); C(cudaStreamWaitEvent(c, e2));
	K(4, c); K(5, b); K(6, a); K(7, c); K(8, a); K(9, b); K(10, c); C(cudaEventRecord(e3, b)); C(cudaEventRecord(e4, c));
	C(cudaStreamWaitEvent(a, e3)); K(11, a); C(cudaStreamWaitEvent(a, e4)); K(12, a);
}
int main(int argc, char **argv)
{
	const char *what = argv[1];
	int *d; C(cudaMalloc(&d, 1 << 20));
	cudaStream_t a, b, c; C(cudaStreamCreate(&a)); C(cudaStreamCreate(&b)); C(cudaStreamCreate(&c));
	cudaEvent_t e[4]; for (auto &x : e) C(cudaEventCreateWithFlags(&x, cudaEventDisableTiming));
	cudaGraph_t g; cudaGraphExec_t x;
	if (!strcmp(what, "twelve")) {
		for (int round = 0; round < 3; round++) {
			C(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal)); twelve(a, b, c, e[0], e[1], e[2], e[3]); C(cudaStreamEndCapture(a, &g));
			C(cudaGraphInstantiate(&x, g, 0));
			for (int i = 0; i < 4; i++) C(cudaGraphLaunch(x, a));
			C(cudaStreamSynchronize(a));
			if (round != 1) { C(cudaGraphExecDestroy(x)); C(cudaGraphDestroy(g)); }
		}
	} else if (!strcmp(what, "copies")) { // kernels, copies and memsets mixed
		C(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
		K(1, a); C(cudaMemsetAsync(d, 0, 1000, a)); K(2, a); C(cudaMemcpyAsync(d, d + 5000, 2000, cudaMemcpyDeviceToDevice, a)); K(3, a); C(cudaMemsetAsync(d, 1, 3000, a)); K(4, a);
		C(cudaStreamEndCapture(a, &g)); C(cudaGraphInstantiate(&x, g, 0));
		for (int i = 0; i < 4; i++) C(cudaGraphLaunch(x, a));
	} else if (!strcmp(what, "update")) {
		C(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal)); twelve(a, b, c, e[0], e[1], e[2], e[3]); C(cudaStreamEndCapture(a, &g));
		C(cudaGraphInstantiate(&x, g, 0)); C(cudaGraphLaunch(x, a)); C(cudaStreamSynchronize(a));
		for (int i = 0; i < 3; i++) {
			cudaGraph_t g2; C(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal)); twelve(a, b, c, e[0], e[1], e[2], e[3]); C(cudaStreamEndCapture(a, &g2));
			cudaGraphExecUpdateResultInfo r; C(cudaGraphExecUpdate(x, g2, &r)); C(cudaGraphLaunch(x, a)); C(cudaGraphLaunch(x, a)); C(cudaStreamSynchronize(a)); C(cudaGraphDestroy(g2));
		}
	} else if (!strcmp(what, "child")) {
		cudaGraph_t ch;
		C(cudaStreamBeginCapture(b, cudaStreamCaptureModeGlobal)); K(1, b); K(2, b); K(3, b); C(cudaStreamEndCapture(b, &ch));
		C(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal)); K(4, a); K(5, a); C(cudaStreamEndCapture(a, &g));
		cudaGraphNode_t n1, n2; size_t cnt = 0; C(cudaGraphGetNodes(g, nullptr, &cnt)); std::vector<cudaGraphNode_t> ns(cnt); C(cudaGraphGetNodes(g, ns.data(), &cnt));
		C(cudaGraphAddChildGraphNode(&n1, g, &ns[cnt - 1], 1, ch)); C(cudaGraphAddChildGraphNode(&n2, g, &n1, 1, ch));
		C(cudaGraphInstantiate(&x, g, 0)); for (int i = 0; i < 3; i++) C(cudaGraphLaunch(x, a));
	} else if (!strcmp(what, "manual")) {
		C(cudaGraphCreate(&g, 0)); cudaGraphNode_t prev = nullptr, n; int *np = nullptr; void *args[] = {&np};
		for (int i = 0; i < 6; i++) { cudaKernelNodeParams p = {}; p.func = i % 2 ? (void *)k<20> : (void *)k<21>; p.gridDim = dim3(next_++); p.blockDim = dim3(32); p.kernelParams = args; C(cudaGraphAddKernelNode(&n, g, prev ? &prev : nullptr, prev ? 1 : 0, &p)); prev = n; }
		C(cudaGraphInstantiate(&x, g, 0)); for (int i = 0; i < 3; i++) C(cudaGraphLaunch(x, a));
	} else if (!strcmp(what, "threads")) { // two threads capture at once
		auto run = [&](int base) { cudaStream_t s; cudaGraph_t gg; cudaGraphExec_t xx; C(cudaStreamCreate(&s)); C(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
			for (int i = 0; i < 50; i++) k<30><<<base + i, 32, 0, s>>>(nullptr); C(cudaStreamEndCapture(s, &gg)); C(cudaGraphInstantiate(&xx, gg, 0)); for (int i = 0; i < 3; i++) C(cudaGraphLaunch(xx, s)); C(cudaStreamSynchronize(s)); };
		std::thread t1(run, 100), t2(run, 200); t1.join(); t2.join();
	} else if (!strcmp(what, "cond")) {
		int *n; C(cudaMallocManaged(&n, 4)); *n = 3;
		C(cudaGraphCreate(&g, 0)); cudaGraphConditionalHandle h; C(cudaGraphConditionalHandleCreate(&h, g, 1, cudaGraphCondAssignDefault));
		cudaGraphNodeParams p = {}; p.type = cudaGraphNodeTypeConditional; p.conditional.handle = h; p.conditional.type = cudaGraphCondTypeWhile; p.conditional.size = 1;
		cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
		C(cudaGraphAddNode(&node, g, nullptr, nullptr, 0, &p));
#else
		C(cudaGraphAddNode(&node, g, nullptr, 0, &p));
#endif
		cudaGraph_t body = p.conditional.phGraph_out[0];
		C(cudaStreamBeginCaptureToGraph(b, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal)); K(1, b); K(2, b); setc<<<1, 1, 0, b>>>(h, n); K(3, b); C(cudaStreamEndCapture(b, nullptr));
		C(cudaGraphInstantiate(&x, g, 0)); for (int i = 0; i < 2; i++) { *n = 3; C(cudaGraphLaunch(x, a)); C(cudaStreamSynchronize(a)); }
	} else if (!strcmp(what, "remake")) {
		for (int i = 0; i < 3000; i++) {
			next_ = 1 + 13 * (i % 60);
			C(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal)); twelve(a, b, c, e[0], e[1], e[2], e[3]); C(cudaStreamEndCapture(a, &g)); C(cudaGraphInstantiate(&x, g, 0));
			C(cudaGraphLaunch(x, a)); C(cudaGraphLaunch(x, a)); C(cudaStreamSynchronize(a)); C(cudaGraphExecDestroy(x)); C(cudaGraphDestroy(g));
		}
	} else if (!strcmp(what, "fifty")) {
		cudaGraphExec_t xs[50];
		for (auto &y : xs) { C(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal)); twelve(a, b, c, e[0], e[1], e[2], e[3]); C(cudaStreamEndCapture(a, &g)); C(cudaGraphInstantiate(&y, g, 0)); }
		for (int i = 0; i < 1000; i++) C(cudaGraphLaunch(xs[i % 50], a));
	} else if (!strcmp(what, "many")) { // 10,000 nodes on one stream
		C(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal)); for (int i = 0; i < 10000; i++) k<40><<<1 + i % 1000, 32, 0, a>>>(nullptr); C(cudaStreamEndCapture(a, &g)); C(cudaGraphInstantiate(&x, g, 0)); C(cudaGraphLaunch(x, a));
	}
	C(cudaDeviceSynchronize());
	printf("%s ok\n", what);
}
