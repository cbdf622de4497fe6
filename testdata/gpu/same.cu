/*
 * Whether CUDA's calls are what they were: each is run one instruction at a time (the processor's trap flag), before and
 * behind recordings, so the answer has no noise of a machine in it.
 *
 *   nvcc -O2 -o same same.cu -ldl
 *   cudatrace run --armed same [graphs]
 *
 * For each line of standard input it calls each of its functions TIMES times, and answers with a line for each function: how
 * many instructions a call took (median), and how many of them are CUPTI's and the recorder's; from the second time on also how
 * many calls took a way, instruction by instruction, that a call of the first time took. Between lines it launches.
 * The last line of an answer is empty. door.sh tells it.
 */
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <functional>
#include <map>
#include <poll.h>
#include <set>
#include <string>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#define TIMES 50 /* an instruction takes microseconds, by the signal */
#define MOST (4 << 20) /* instructions of a call */
#define TRAP_FLAG 0x100

static uintptr_t *steps;
static size_t made;

static void on_step(int, siginfo_t *, void *context)
{
	auto u = (ucontext_t *)context;
	if (made < MOST)
		steps[made++] = (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
}

static inline __attribute__((always_inline)) void trap(bool on)
{
	uint64_t flags;
	asm volatile("pushfq; popq %0" : "=r"(flags)::"memory");
	flags = on ? flags | TRAP_FLAG : flags & ~(uint64_t)TRAP_FLAG;
	asm volatile("pushq %0; popfq" ::"r"(flags) : "memory", "cc");
}

__global__ void add(unsigned *to)
{
	atomicAdd(to, 1u);
}

static void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "same: %s returned %d\n", what, error);
		exit(1);
	}
}
#define MUST(call) must((int)(call), #call)

/* Whose code an address is in, by what is mapped now. */
struct map {
	uintptr_t end;
	char whose; /* c: CUPTI's, r: the recorder's, or neither */
};

static std::map<uintptr_t, map> read_maps()
{
	std::map<uintptr_t, map> all;
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096];
	while (f && fgets(line, sizeof line, f)) {
		uintptr_t from, to;
		if (sscanf(line, "%lx-%lx", &from, &to) == 2)
			all[from] = {to, strstr(line, "cupti") ? 'c' : strstr(line, "cudatrace") ? 'r' : ' '};
	}
	if (f)
		fclose(f);
	return all;
}

static char whose(const std::map<uintptr_t, map> &maps, uintptr_t address)
{
	auto m = maps.upper_bound(address);
	return m != maps.begin() && address < std::prev(m)->second.end ? std::prev(m)->second.whose : ' ';
}

struct function {
	std::string name;
	std::function<int()> call;
	std::set<uint64_t> known; /* ways of the first time */
};

static void measure(function &f)
{
	std::vector<size_t> counts;
	std::vector<uint64_t> ways;
	size_t cupti = 0, recorder = 0;
	auto maps = read_maps();
	struct sigaction step = {}, was;
	step.sa_sigaction = on_step;
	step.sa_flags = SA_SIGINFO;
	for (int i = -3; i < TIMES; i++) { /* the first ones may look symbols up */
		MUST(cudaDeviceSynchronize());
		made = 0;
		sigaction(SIGTRAP, &step, &was);
		trap(true);
		int error = f.call();
		trap(false);
		sigaction(SIGTRAP, &was, nullptr);
		must(error, f.name.c_str());
		if (i < 0)
			continue;
		uint64_t way = 0;
		for (size_t n = 0; n < made; n++) {
			way = (way ^ steps[n]) * 0x100000001b3;
			char w = whose(maps, steps[n]);
			cupti += w == 'c';
			recorder += w == 'r';
		}
		counts.push_back(made);
		ways.push_back(way);
	}
	std::sort(counts.begin(), counts.end());
	printf("%-22s %6zu instructions, %4zu CUPTI's, %zu the recorder's", f.name.c_str(), counts[TIMES / 2], cupti / TIMES, recorder / TIMES);
	if (f.known.empty()) {
		f.known.insert(ways.begin(), ways.end());
		printf("; %zu ways\n", f.known.size());
	} else {
		auto same = std::count_if(ways.begin(), ways.end(), [&](uint64_t w) { return f.known.count(w) > 0; });
		printf("; %ld of %d by a way of before\n", (long)same, TIMES);
	}
	fflush(stdout);
}

int main(int argc, char **)
{
	cudaStream_t s;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaEvent_t event;
	cudaFunction_t driver;
	unsigned *cell, *host;
	steps = (uintptr_t *)calloc(MOST, sizeof *steps);
	MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	MUST(cudaMalloc(&cell, sizeof *cell));
	MUST(cudaMallocHost(&host, sizeof *host));
	MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	MUST(cudaGetFuncBySymbol(&driver, (const void *)add));
	MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
	for (int i = 0; i < 5; i++)
		add<<<1, 1, 0, s>>>(cell);
	MUST(cudaStreamEndCapture(s, &graph));
	MUST(cudaGraphInstantiate(&exec, graph, 0));
	CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
	cudaDriverEntryPointQueryResult found;
	MUST(cudaGetDriverEntryPointByVersion("cuLaunchKernel", (void **)&launch, 12000, cudaEnableDefault, &found));
	void *args[] = {&cell};
	std::vector<function> functions = {
		{"cudaLaunchKernel", [&] { return (int)cudaLaunchKernel((const void *)add, dim3(1), dim3(1), args, 0, s); }, {}},
		{"cuLaunchKernel", [&] { return (int)launch((CUfunction)driver, 1, 1, 1, 1, 1, 1, 0, s, args, nullptr); }, {}},
		{"cudaMemcpyAsync", [&] { return (int)cudaMemcpyAsync(cell, host, sizeof *host, cudaMemcpyHostToDevice, s); }, {}},
		{"cudaEventRecord", [&] { return (int)cudaEventRecord(event, s); }, {}},
		{"cudaStreamSynchronize", [&] { return (int)cudaStreamSynchronize(s); }, {}},
	};
	if (argc > 1) /* behind a launch of a graph CUPTI stays */
		functions.push_back({"cudaGraphLaunch", [&] { return (int)cudaGraphLaunch(exec, s); }, {}});
	puts("ready");
	fflush(stdout);
	for (;;) {
		pollfd in = {STDIN_FILENO, POLLIN, 0};
		if (poll(&in, 1, 1) == 0) {
			for (auto &f : functions)
				must(f.call(), f.name.c_str());
			MUST(cudaStreamSynchronize(s));
			continue;
		}
		char line[80];
		ssize_t n = read(STDIN_FILENO, line, sizeof line);
		if (n <= 0)
			return n < 0;
		for (auto &f : functions)
			measure(f);
		puts("");
		fflush(stdout);
	}
}
