/*
 * What cuptiFinalize does to a program whose threads launch, and what it gives back. In each round CUPTI is switched on,
 * records for 15 ms, is switched off, and cuptiFinalize is called; launches are timed before the first round, while
 * CUPTI records, and behind each cuptiFinalize.
 *
 *   nvcc -O2 -o finalize finalize.cu -ldl
 *   finalize THREADS ROUNDS OFF ON [graphs]
 *
 * OFF and ON are 1 to have all threads wait outside of CUDA while CUPTI is switched off and finalized, or on; else 0. With
 * graphs, threads launch graphs of four kernels.
 *
 * H200, driver 580.159.04, CUPTI 13.0.1: with 1, 8 and 64 threads that wait both times, 360 rounds of 360 (100 with graphs)
 * ended well, launches took 0.97 to 1.03 times what they took before, and the threads waited for 5.3 ms at most. With 8
 * threads that go on launching, the thread that switches on or finalizes waits for ever for a lock of libcuda's, which the
 * launches take from each other, while they run at full speed; with 2 threads it gets the lock.
 */
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <thread>
#include <unistd.h>
#include <vector>

typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);

static int (*register_callbacks)(request_fn, complete_fn);
static int (*enable)(uint32_t), (*disable)(uint32_t), (*flush)(uint32_t), (*finalize)();

#define BUFFER (256 << 10)
enum { KIND_DRIVER = 4, KIND_CONCURRENT_KERNEL = 10, FORCED = 1 };

static std::atomic<long> bytes, launches;
static std::atomic<int> gate, waiting, over;
static int threads;
static bool graphs;

static void request(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = (uint8_t *)aligned_alloc(8, BUFFER);
	*size = BUFFER;
	*records = 0;
}

static void complete(void *, uint32_t, uint8_t *buffer, size_t, size_t used)
{
	bytes += used;
	free(buffer);
}

__global__ void nothing() {}

static void launch_on()
{
	cudaStream_t s;
	cudaGraph_t graph;
	cudaGraphExec_t exec = nullptr;
	cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
	if (graphs) {
		cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
		for (int i = 0; i < 4; i++)
			nothing<<<1, 32, 0, s>>>();
		cudaStreamEndCapture(s, &graph);
		cudaGraphInstantiate(&exec, graph, 0);
	}
	for (long n = 1; !over; n++) {
		if (gate) {
			waiting++;
			while (gate)
				usleep(20);
			waiting--;
		}
		if (graphs)
			cudaGraphLaunch(exec, s);
		else
			nothing<<<1, 32, 0, s>>>();
		launches++;
		if (n % 64 == 0)
			cudaStreamSynchronize(s);
	}
}

static void wait_outside(bool is)
{
	gate = is;
	while (waiting != (is ? threads : 0))
		usleep(10);
}

static double seconds()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The time of a launch on its thread, ns, over some time. */
static double launch_time(double s)
{
	long before = launches;
	double began = seconds();
	usleep((useconds_t)(s * 1e6));
	return (seconds() - began) * 1e9 * threads / (double)(launches - before);
}

template <typename F> static void find(void *library, const char *name, F *to)
{
	void *f = dlsym(library, name);
	if (!f) {
		fprintf(stderr, "no %s\n", name);
		exit(1);
	}
	memcpy(to, &f, sizeof f);
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fprintf(stderr, "usage: finalize THREADS ROUNDS OFF ON [graphs]\n");
		return 2;
	}
	threads = atoi(argv[1]);
	int rounds = atoi(argv[2]), failed = 0;
	bool off = atoi(argv[3]), on = atoi(argv[4]);
	graphs = argc > 5;
	void *cupti = dlopen("libcupti.so.13", RTLD_NOW);
	if (!cupti) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	find(cupti, "cuptiActivityRegisterCallbacks", &register_callbacks);
	find(cupti, "cuptiActivityEnable", &enable);
	find(cupti, "cuptiActivityDisable", &disable);
	find(cupti, "cuptiActivityFlushAll", &flush);
	find(cupti, "cuptiFinalize", &finalize);
	cudaFree(nullptr);
	std::vector<std::thread> all;
	for (int i = 0; i < threads; i++)
		all.emplace_back(launch_on);
	usleep(300000);
	double before = launch_time(0.3), recorded = 0, after = 0, longest = 0;
	for (int i = 0; i < rounds; i++) {
		if (on)
			wait_outside(true);
		failed += register_callbacks(request, complete) || enable(KIND_CONCURRENT_KERNEL) || enable(KIND_DRIVER);
		if (on)
			wait_outside(false);
		recorded += launch_time(0.015);
		double began = seconds();
		if (off) {
			wait_outside(true);
			cudaDeviceSynchronize();
		}
		failed += disable(KIND_CONCURRENT_KERNEL) || disable(KIND_DRIVER) || flush(FORCED) || finalize();
		if (off)
			wait_outside(false);
		longest = std::max(longest, seconds() - began);
		after += launch_time(0.015);
	}
	over = 1;
	for (auto &t : all)
		t.join();
	printf("%d rounds, %d failed; a launch takes %.0f ns before, %.0f recorded, %.0f after; off in %.1f ms at most; %ld bytes\n",
	       rounds, failed, before, recorded / rounds, after / rounds, longest * 1e3, bytes.load());
	return failed > 0;
}
