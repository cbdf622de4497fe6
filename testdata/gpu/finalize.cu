/*
 * A program whose threads launch without pause, and whose main thread switches CUPTI on and calls cuptiFinalize when it is
 * told to: to find out whether programs survive that while package door keeps their threads stopped.
 *
 *   nvcc -O2 -o finalize finalize.cu -ldl
 *   finalize THREADS [graphs]
 *
 * With graphs, threads launch graphs of four kernels. Each letter on standard input is answered by a number and a newline: on
 * (e), waits for the first record (w), off and cuptiFinalize (f), the time of a launching call (t), that of a loop that only
 * counts (s), ns; threads launch no more (h), or again (g), 0; what the GPU computed wrongly, at the end (q).
 * Tests of package door tell it; door.sh has all of this:
 *
 *   go test -c -o bin/door.test ./record/internal/door
 *   FINALIZE='finalize 8' ROUNDS=1000 bin/door.test -test.run TestFinalize -test.v
 *   FINALIZE='finalize 8' PAIRS=400 bin/door.test -test.run TestSpeed -test.v
 *   FINALIZE='finalize 8' TIMES=5 bin/door.test -test.run TestEnable -test.v
 *
 * Without stopped threads, 8 threads that launch keep a lock of libcuda's to themselves: e and f wait for it for ever, or the
 * program dies. With them, see docs/on-demand.md.
 */
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <iterator>
#include <mutex>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <vector>

typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);

static int (*register_callbacks)(request_fn, complete_fn);
static int (*enable)(uint32_t), (*disable)(uint32_t), (*flush)(uint32_t), (*finalize)();

#define BUFFER (256 << 10)
#define BATCH 64 /* launches of a thread before it waits for them */
enum { KIND_DRIVER = 4, KIND_RUNTIME = 5, KIND_CONCURRENT_KERNEL = 10, FORCED = 1 };

static std::atomic<long> launches, wrong, records;
static std::atomic<bool> over, halted;
static std::atomic<uint32_t> times[1 << 17]; /* how many calls took so many ns, as means of BATCH */
static std::mutex capturing;
static int threads;
static bool graphs;

static void request(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = (uint8_t *)aligned_alloc(8, BUFFER);
	*size = BUFFER;
	*records = 0;
}

static void complete(void *, uint32_t, uint8_t *buffer, size_t, size_t valid)
{
	records += valid > 0;
	free(buffer);
}

__global__ void add(unsigned *to)
{
	atomicAdd(to, 1u);
}

static double seconds()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void launch_on()
{
	cudaStream_t s;
	cudaGraph_t graph;
	cudaGraphExec_t exec = nullptr;
	unsigned *cell, is = 0, made = 0;
	{
		std::lock_guard<std::mutex> one(capturing);
		cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
		cudaMalloc(&cell, sizeof *cell);
		cudaMemset(cell, 0, sizeof *cell);
		cudaDeviceSynchronize();
		if (graphs) {
			cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
			for (int i = 0; i < 4; i++)
				add<<<1, 1, 0, s>>>(cell);
			cudaStreamEndCapture(s, &graph);
			cudaGraphInstantiate(&exec, graph, 0);
		}
	}
	while (!over) {
		double began = seconds();
		for (int i = 0; i < BATCH; i++)
			if (graphs)
				cudaGraphLaunch(exec, s);
			else
				add<<<1, 1, 0, s>>>(cell);
		auto took = (size_t)((seconds() - began) * 1e9 / BATCH);
		times[std::min(took, std::size(times) - 1)]++;
		made += (graphs ? 4 : 1) * BATCH;
		launches += BATCH;
		wrong += cudaStreamSynchronize(s) != cudaSuccess;
		while (halted && !over)
			usleep(100);
	}
	cudaMemcpyAsync(&is, cell, sizeof is, cudaMemcpyDeviceToHost, s);
	wrong += cudaStreamSynchronize(s) != cudaSuccess || cudaGetLastError() != cudaSuccess || is != made;
}

/*
 * The time of a call that launches, ns: the lower quartile of 30 ms, since the rest has what the machine does meanwhile. What
 * a program waits for behind it, the GPU, is not of interest. At first processor and GPU may sleep.
 */
static long launch_time()
{
	usleep(20000);
	for (auto &t : times)
		t = 0;
	usleep(30000);
	uint64_t all = 0, passed = 0;
	for (auto &t : times)
		all += t;
	size_t ns = 0;
	while (ns < std::size(times) && (passed += times[ns]) * 4 < all)
		ns++;
	return (long)ns;
}

/* The time of a loop on the processor, ns: by it times of launches are compared, since the machine's speed drifts. */
static long spin_time()
{
	double began = seconds();
	for (volatile int i = 0; i < 2000000; i++)
		;
	return (long)((seconds() - began) * 1e9);
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

/* Waits until a buffer with records has come, for 5 s at most. */
static long await_record()
{
	for (double began = seconds(); records == 0; usleep(1000))
		if (flush(0) != 0 || seconds() > began + 5)
			return 1;
	return 0;
}

static long answer(int letter)
{
	switch (letter) {
	case 'e':
		records = 0;
		return register_callbacks(request, complete) || enable(KIND_CONCURRENT_KERNEL) || enable(KIND_DRIVER) || enable(KIND_RUNTIME);
	case 'f':
		return disable(KIND_CONCURRENT_KERNEL) || disable(KIND_DRIVER) || disable(KIND_RUNTIME) || flush(FORCED) || finalize();
	case 'w':
		return await_record();
	case 'g':
	case 'h':
		halted = letter == 'h';
		usleep(2000); /* until all have heard it */
		return 0;
	case 't':
		return launch_time();
	case 's':
		return spin_time();
	}
	return wrong;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return fprintf(stderr, "usage: finalize THREADS [graphs]\n"), 2;
	threads = atoi(argv[1]);
	graphs = argc > 2;
	void *cupti = dlopen("libcupti.so.13", RTLD_NOW);
	if (!cupti)
		return fprintf(stderr, "%s\n", dlerror()), 1;
	find(cupti, "cuptiActivityRegisterCallbacks", &register_callbacks);
	find(cupti, "cuptiActivityEnable", &enable);
	find(cupti, "cuptiActivityDisable", &disable);
	find(cupti, "cuptiActivityFlushAll", &flush);
	find(cupti, "cuptiFinalize", &finalize);
	signal(SIGTRAP, [](int) {}); /* as the injected library, or there are no breakpoints */
	cudaFree(nullptr);
	std::vector<std::thread> all;
	for (int i = 0; i < threads; i++)
		all.emplace_back(launch_on);
	while (launches < 1000 * threads)
		usleep(1000);
	prctl(PR_SET_NAME, "cudatrace"); /* as the thread that does this in the injected library; CUPTI's get this name, too */
	for (int letter; (letter = getchar()) != EOF;) {
		if (letter == 'q') {
			over = true;
			for (auto &t : all)
				t.join();
		}
		printf("%ld\n", answer(letter));
		fflush(stdout);
	}
	return wrong > 0;
}
