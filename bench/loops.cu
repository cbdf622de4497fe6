// loops.cu: the loops that are measured, each timed separately.
//
// The program reads one command per line and answers with one report per line, so
// that start-up, warm-up and loops are separate and the caller can start and stop a
// tracer between two loops:
//
//	init NAME...              starts CUDA     init first_ns=.. t=..
//	run NAME COUNT ARG        one loop        part name=.. unit=.. ns=..,.. hwm_kb=..
//	quit                      ends            bye t=..
//
// A loop runs in parts of unit operations, each waited for. ns has the wall time of each part, for loop e the sum over its threads;
// t is CLOCK_MONOTONIC in ns.
//
// Usage: loops CONTROL REPORT    (paths, of pipes for instance; - is standard input and output)
//
// Built by nvcc, or as C with -DBENCH_SIM against the simulated CUDA stack.
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SYNC_EVERY 500   // launches, copies
#define GRAPH_NODES 20
#define GRAPH_SYNC_EVERY 50
#define MAX_THREADS 64
#define COPY_BYTES 1024
#define MAX_PARTS 1000

#ifdef BENCH_SIM
#include "kernels.h"
enum { cudaStreamCaptureModeThreadLocal = 1 };
KERNEL_STUB(emptyKernel, "_Z11emptyKernelv")
KERNEL_STUB(memoryKernel, "_Z12memoryKernelP6float4mi")
static const struct sim_kernel kernels[] = {
	{.name = "_Z11emptyKernelv", .registers = 8},
	{.name = "_Z12memoryKernelP6float4mi", .registers = 16, .ns = 20000000, .params = 3, .param_size = {8, 8, 4}},
};
static const struct stub stubs[] = {{emptyKernel}, {memoryKernel}};
REGISTER_KERNELS(kernels, stubs)
#undef CHECK
#define MEMORY_ELEMENTS ((size_t)1 << 10)
#define MEMORY_BLOCKS 1
#else
#include <cuda_runtime.h>
__global__ void emptyKernel() {}

// Reads and writes all of y, passes times.
__global__ void memoryKernel(float4 *y, size_t n, int passes)
{
	size_t stride = (size_t)gridDim.x * blockDim.x;
	for (int pass = 0; pass < passes; pass++)
		for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
			float4 v = y[i];
			v.x += 1, v.y += 1, v.z += 1, v.w += 1;
			y[i] = v;
		}
}
#define MEMORY_ELEMENTS ((size_t)1 << 28)
#define MEMORY_BLOCKS 1056
#endif
#define MEMORY_BYTES (MEMORY_ELEMENTS * 16)

static FILE *control, *report;

static void say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vfprintf(report, format, args);
	va_end(args);
	fputc('\n', report);
	fflush(report);
}

#define CHECK(call) checked((call), #call)
static void checked(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	say("failed %s: %s", call, cudaGetErrorName(error));
	exit(1);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }

// A field of /proc/self/status in KiB; 0 where there is none.
static long status_kb(const char *field)
{
	char line[256];
	long kb = 0;
	size_t length = strlen(field);
	FILE *f = fopen("/proc/self/status", "r");
	if (!f)
		return 0;
	while (fgets(line, sizeof line, f))
		if (!strncmp(line, field, length) && line[length] == ':')
			kb = strtol(line + length + 1, NULL, 10);
	fclose(f);
	return kb;
}

static const dim3 one = {1, 1, 1};
static cudaStream_t stream;
static cudaStream_t thread_stream[MAX_THREADS];
static void *host_bytes, *device_bytes, *memory;
static cudaGraphExec_t graph;

static void launch_empty(cudaStream_t s) { CHECK(cudaLaunchKernel((const void *)emptyKernel, one, one, NULL, 0, s)); }

// a: empty kernels.
static uint64_t loop_launches(long count, cudaStream_t s)
{
	uint64_t begin = now();
	for (long i = 0; i < count; i++)
		launch_empty(s);
	CHECK(cudaStreamSynchronize(s));
	return now() - begin;
}

static uint64_t launches(long count, long arg)
{
	(void)arg;
	return loop_launches(count, stream);
}

// b: small copies, up and down by turns.
static uint64_t copies(long count, long arg)
{
	(void)arg;
	uint64_t begin = now();
	for (long i = 0; i < count; i++) {
		if (i % 2)
			CHECK(cudaMemcpyAsync(device_bytes, host_bytes, COPY_BYTES, cudaMemcpyHostToDevice, stream));
		else
			CHECK(cudaMemcpyAsync(host_bytes, device_bytes, COPY_BYTES, cudaMemcpyDeviceToHost, stream));
	}
	CHECK(cudaStreamSynchronize(stream));
	return now() - begin;
}

// g: launches of a graph of empty kernels.
static uint64_t graphs(long count, long arg)
{
	(void)arg;
	uint64_t begin = now();
	for (long i = 0; i < count; i++)
		CHECK(cudaGraphLaunch(graph, stream));
	CHECK(cudaStreamSynchronize(stream));
	return now() - begin;
}

// e: threads that launch, each on a stream of its own.
struct worker {
	pthread_t thread;
	long count;
	cudaStream_t stream;
	uint64_t ns;
};
static pthread_barrier_t start;

static void *work(void *arg)
{
	struct worker *w = (struct worker *)arg;
	loop_launches(100, w->stream);
	pthread_barrier_wait(&start);
	for (long left = w->count; left > 0; left -= SYNC_EVERY)
		w->ns += loop_launches(left < SYNC_EVERY ? left : SYNC_EVERY, w->stream);
	return NULL;
}

static uint64_t threads(long count, long wanted)
{
	struct worker workers[MAX_THREADS];
	uint64_t sum = 0;
	long n = wanted < 1 ? 1 : wanted > MAX_THREADS ? MAX_THREADS : wanted;
	pthread_barrier_init(&start, NULL, (unsigned)n);
	for (long i = 0; i < n; i++) {
		workers[i].count = count / n + (i < count % n);
		workers[i].stream = thread_stream[i];
		workers[i].ns = 0;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) {
			say("failed cannot start thread %ld", i + 1);
			exit(1);
		}
	}
	for (long i = 0; i < n; i++) {
		pthread_join(workers[i].thread, NULL);
		sum += workers[i].ns;
	}
	pthread_barrier_destroy(&start);
	return sum;
}

// f: long kernels that only move memory, waited for one by one.
static uint64_t long_kernels(long count, long arg)
{
	dim3 grid = {MEMORY_BLOCKS, 1, 1}, block = {256, 1, 1};
	size_t n = MEMORY_ELEMENTS;
	int passes = (int)arg;
	void *args[] = {&memory, &n, &passes};
	uint64_t begin = now();
	for (long i = 0; i < count; i++) {
		CHECK(cudaLaunchKernel((const void *)memoryKernel, grid, block, args, 0, stream));
		CHECK(cudaStreamSynchronize(stream));
	}
	return now() - begin;
}

static void prepare_copies(void)
{
	CHECK(cudaMallocHost(&host_bytes, COPY_BYTES));
	CHECK(cudaMalloc(&device_bytes, COPY_BYTES));
	memset(host_bytes, 1, COPY_BYTES);
}

static void prepare_graphs(void)
{
	cudaGraph_t captured;
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	for (int i = 0; i < GRAPH_NODES; i++)
		launch_empty(stream);
	CHECK(cudaStreamEndCapture(stream, &captured));
	CHECK(cudaGraphInstantiateWithFlags(&graph, captured, 0));
	CHECK(cudaGraphDestroy(captured));
}

static void prepare_threads(void)
{
	for (int i = 0; i < MAX_THREADS; i++)
		CHECK(cudaStreamCreateWithFlags(&thread_stream[i], cudaStreamNonBlocking));
}

static void prepare_memory(void)
{
	CHECK(cudaMalloc(&memory, MEMORY_BYTES));
	CHECK(cudaMemsetAsync(memory, 0, MEMORY_BYTES, stream));
	long_kernels(1, 1);
}

static void prepare_nothing(void) {}

static const struct loop {
	const char *name;
	void (*prepare)(void);
	uint64_t (*run)(long count, long arg);
	long unit; // operations in a part, 0 for all
} loops[] = {
	{"a", prepare_nothing, launches, SYNC_EVERY}, {"b", prepare_copies, copies, SYNC_EVERY}, {"g", prepare_graphs, graphs, GRAPH_SYNC_EVERY},
	{"e", prepare_threads, threads, 0},           {"f", prepare_memory, long_kernels, 1},
};

static const struct loop *find(const char *name)
{
	for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++)
		if (!strcmp(loops[i].name, name))
			return &loops[i];
	say("failed there is no loop %s", name);
	exit(1);
}

static void init(void)
{
	uint64_t begin = now();
	CHECK(cudaFree(NULL));
	uint64_t first = now() - begin;
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (char *name; (name = strtok(NULL, " \n"));)
		find(name)->prepare();
	loop_launches(2000, stream);
	say("init first_ns=%llu t=%llu", (unsigned long long)first, (unsigned long long)now());
}

static void run(const char *name, const char *count_text, const char *arg_text)
{
	static uint64_t ns[MAX_PARTS];
	long count = count_text ? strtol(count_text, NULL, 10) : 0, arg = arg_text ? strtol(arg_text, NULL, 10) : 0, parts;
	const struct loop *loop = find(name ? name : "");
	long unit = loop->unit ? loop->unit : count;
	loop->run(unit, arg); // warms up
	for (parts = 0; parts < MAX_PARTS && parts * unit < count; parts++)
		ns[parts] = loop->run(unit, arg);
	fprintf(report, "part name=%s unit=%ld hwm_kb=%ld ns=", loop->name, unit, status_kb("VmHWM"));
	for (long i = 0; i < parts; i++)
		fprintf(report, "%s%llu", i ? "," : "", (unsigned long long)ns[i]);
	say("");
}

static FILE *opened(const char *path, const char *mode, FILE *standard)
{
	FILE *f = strcmp(path, "-") ? fopen(path, mode) : standard;
	if (f)
		return f;
	perror(path);
	exit(2);
}

int main(int argc, char **argv)
{
	char line[256];
	if (argc != 3) {
		fprintf(stderr, "usage: loops CONTROL REPORT   (- is standard input and output)\n");
		return 2;
	}
	report = opened(argv[2], "w", stdout);
	control = opened(argv[1], "r", stdin);
	say("ready pid=%d t=%llu", (int)getpid(), (unsigned long long)now());
	while (fgets(line, sizeof line, control)) {
		char *word = strtok(line, " \n");
		if (!word || !strcmp(word, "quit"))
			break;
		if (!strcmp(word, "init")) {
			init();
		} else if (!strcmp(word, "run")) {
			char *name = strtok(NULL, " \n"), *count = strtok(NULL, " \n");
			run(name, count, strtok(NULL, " \n"));
		} else {
			say("failed there is no command %s", word);
			return 1;
		}
	}
	say("bye t=%llu", (unsigned long long)now());
	return 0;
}
