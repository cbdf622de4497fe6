// kinds.cu: one program for many kinds of program. Each process prints
// the work that it issued:
//
//	counts pid=P kernels=K copies=C sets=S
//
// replaced prints them before each exec and goes on in the same process.
//
// Usage: kinds threads|forkexec|forkafter|graphs|range|nvtx|child [N]
//        kinds replaced [N [GENERATIONS]]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call)                                                      \
	do {                                                                 \
		cudaError_t err = (call);                                        \
		if (err != cudaSuccess) {                                        \
			fprintf(stderr, "kinds: %s: %s\n", #call, cudaGetErrorName(err)); \
			exit(1);                                                     \
		}                                                                \
	} while (0)

__global__ void step(float *x) { x[threadIdx.x] += 1.0f; }

static long kernels, copies, sets;

static void counts()
{
	printf("counts pid=%d kernels=%ld copies=%ld sets=%ld\n", getpid(), kernels, copies, sets);
	fflush(stdout);
}

static void work(int n, cudaStream_t s)
{
	float *x, host[32];
	CHECK(cudaMalloc(&x, sizeof host));
	CHECK(cudaMemsetAsync(x, 0, sizeof host, s));
	for (int i = 0; i < n; i++)
		step<<<1, 32, 0, s>>>(x);
	CHECK(cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, s));
	CHECK(cudaStreamSynchronize(s));
	if (host[0] != (float)n) {
		fprintf(stderr, "kinds: %g instead of %d\n", host[0], n);
		exit(1);
	}
	CHECK(cudaFree(x));
}

static void simple(int n)
{
	work(n, 0);
	kernels += n, copies++, sets++;
}

static void threads(int n)
{
	std::vector<std::thread> all;
	for (int t = 0; t < 8; t++)
		all.emplace_back([=] {
			char name[16];
			snprintf(name, sizeof name, "launcher %d", t);
			pthread_setname_np(pthread_self(), name);
			cudaStream_t s;
			CHECK(cudaStreamCreate(&s));
			work(n, s);
			CHECK(cudaStreamDestroy(s));
		});
	for (auto &t : all)
		t.join();
	kernels += 8L * n, copies += 8, sets += 8;
}

static int forkexec(const char *self, int n)
{
	pid_t child = fork(); // before CUDA's start: the child may use it
	if (child == 0) {
		char num[16];
		snprintf(num, sizeof num, "%d", n);
		execl(self, self, "child", num, (char *)NULL);
		_exit(127);
	}
	simple(n);
	int status;
	waitpid(child, &status, 0);
	return status != 0;
}

static int forkafter(int n)
{
	simple(n);
	pid_t child = fork();
	if (child == 0)
		exit(0); // runs the handlers that the parent registered
	int status;
	waitpid(child, &status, 0);
	simple(n);
	return status != 0;
}

// Works on the first thread and on another, then runs itself in its own place, GENERATIONS times: by the other thread
// and by the first, by turns.
static void replaced(const char *self, int n, int generations)
{
	std::string num = std::to_string(n), left = std::to_string(generations - 1);
	auto run_again = [&] {
		simple(n);
		counts();
		execl(self, self, "replaced", num.c_str(), left.c_str(), (char *)NULL);
		perror("kinds: exec");
		exit(1);
	};
	simple(n);
	if (generations % 2 == 1)
		run_again();
	if (generations > 0)
		std::thread(run_again).join();
}

static void graphs(int n)
{
	float *x, host[32];
	cudaStream_t s;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	CHECK(cudaMalloc(&x, sizeof host));
	CHECK(cudaStreamCreate(&s));
	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	CHECK(cudaMemsetAsync(x, 0, sizeof host, s));
	for (int i = 0; i < 5; i++)
		step<<<1, 32, 0, s>>>(x);
	CHECK(cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, s));
	CHECK(cudaStreamEndCapture(s, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < n; i++)
		CHECK(cudaGraphLaunch(exec, s));
	CHECK(cudaStreamSynchronize(s));
	kernels += 5L * n, copies += n, sets += n;
}

__global__ void spin(long long cycles)
{
	for (long long start = clock64(); clock64() - start < cycles;)
		;
}

// Work between cudaProfilerStart and Stop counts, also kernels that still wait for the
// GPU when Stop is called.
static void range(int n)
{
	for (int i = 0; i < n; i++)
		spin<<<1, 1>>>(100000);
	CHECK(cudaProfilerStart());
	for (int i = 0; i < n; i++)
		spin<<<1, 1>>>(100000);
	CHECK(cudaProfilerStop());
	for (int i = 0; i < n; i++)
		spin<<<1, 1>>>(100000);
	CHECK(cudaDeviceSynchronize());
	kernels += n;
}

// Work in the NVTX ranges "step" of the default domain counts, also kernels that still wait for the
// GPU when a range ends. One range begins before CUDA does.
static void ranges(int n)
{
	nvtxDomainHandle_t other = nvtxDomainCreateA("other");
	nvtxEventAttributes_t a = {};
	a.version = NVTX_VERSION;
	a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	a.messageType = NVTX_MESSAGE_TYPE_ASCII;
	a.message.ascii = "step";
	nvtxRangePushA("step");
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < n / 5; i++)
			spin<<<1, 1>>>(100000);
		nvtxRangePushA("inner");
		nvtxRangePop();
		nvtxRangePop();
		nvtxDomainRangePushEx(other, &a);
		for (int i = 0; i < n / 5; i++)
			spin<<<1, 1>>>(100000);
		nvtxDomainRangePop(other);
		nvtxRangePushA("step");
	}
	nvtxRangePop();
	CHECK(cudaDeviceSynchronize());
	kernels += n / 5 * 5;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 100, status = 0;
	if (!strcmp(mode, "threads"))
		threads(n);
	else if (!strcmp(mode, "forkexec"))
		status = forkexec(argv[0], n);
	else if (!strcmp(mode, "forkafter"))
		status = forkafter(n);
	else if (!strcmp(mode, "replaced"))
		replaced(argv[0], n, argc > 3 ? atoi(argv[3]) : 2);
	else if (!strcmp(mode, "graphs"))
		graphs(n);
	else if (!strcmp(mode, "range"))
		range(n);
	else if (!strcmp(mode, "nvtx"))
		ranges(n);
	else if (!strcmp(mode, "child"))
		simple(n);
	else
		return 2;
	counts();
	return status;
}
