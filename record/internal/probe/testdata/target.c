/*
 * A program for the tests to probe. It prints "ready", and then runs the
 * scenario of each line that it reads, "NAME NUMBER", and answers with a line.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

int cuLaunchKernel(uintptr_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uintptr_t, void **, void **);
int cuLaunchKernelEx(const void *, uintptr_t, void **, void **);
int cuGraphLaunch(uintptr_t, uintptr_t);
int cuMemcpy3D_v2(const void *);
int cuMemAlloc_v2(uint64_t *, size_t);
int cuStreamSynchronize(uintptr_t);
int cuModuleGetFunction(uintptr_t *, uintptr_t, const char *);
int cuKernelGetFunction(uintptr_t *, uintptr_t);
int cuProfilerStart(void);
int cuProfilerStop(void);
#ifdef WITH_RUNTIME
int cudaMalloc(void **, size_t);
int cudaGetDevice(int *);
int cudaStreamSynchronize(uintptr_t);
int cudaDeviceSynchronize(void);
struct dims {
	unsigned x, y, z;
};
struct extent {
	size_t width, height, depth;
};
struct pitched {
	void *ptr;
	size_t pitch, xsize, ysize;
};
struct handle {
	char reserved[64];
};
struct location {
	int type, id;
};
int cudaLaunchKernel(const void *, struct dims, struct dims, void **, size_t, uintptr_t);
int __cudaLaunchKernel(uintptr_t, struct dims, struct dims, void **, size_t, uintptr_t);
int cudaMemset3DAsync(struct pitched, int, struct extent, uintptr_t);
int cudaMalloc3D(struct pitched *, struct extent);
int cudaIpcOpenMemHandle(void **, struct handle, unsigned);
int cudaMemAdvise_v2(const void *, size_t, int, struct location);
int cudaEventElapsedTime(float *, uintptr_t, uintptr_t);
int cudaProfilerStart(void);
int cudaProfilerStop(void);
#endif

enum { JUMP = 1000, HANG, ASK, HOLD, DEEPER };

static __thread jmp_buf back;
static volatile int hanging, held, released;

/* Says that it is inside of a call, and stays there until a line comes. */
static void ask(void)
{
	char line[32];

	puts("inside");
	fflush(stdout);
	if (scanf("%31s", line) != 1)
		_exit(1);
}

/* What the libraries call inside a call: the stream says what is to happen there. */
void during_call(uintptr_t stream)
{
	if (stream == JUMP)
		longjmp(back, 1);
	if (stream == HANG) {
		__sync_fetch_and_add(&hanging, 1);
		for (;;)
			pause();
	}
	if (stream == ASK)
		ask();
	if (stream == HOLD)
		for (held = 1; !released;)
			usleep(1000);
	if (stream > DEEPER)
		cuStreamSynchronize(stream - 1);
}

static int launch(unsigned gx, uintptr_t stream)
{
	return cuLaunchKernel(0xf00d, gx, 2, 3, 4, 5, 6, 7, stream, NULL, NULL);
}

static void launches(long n)
{
	for (long i = 0; i < n; i++)
		launch((unsigned)i, 0);
}

static void graphs(long n)
{
	for (long i = 0; i < n; i++)
		cuGraphLaunch((uintptr_t)i, 0);
}

static void *launching_thread(void *n)
{
	pthread_setname_np(pthread_self(), "worker");
	launches((long)n);
	return NULL;
}

static void *hanging_thread(void *unused)
{
	cuStreamSynchronize(HANG);
	return unused;
}

static void threads(long n)
{
	pthread_t thread[64];

	for (int i = 0; i < 64; i++)
		pthread_create(&thread[i], NULL, launching_thread, (void *)n);
	for (int i = 0; i < 64; i++)
		pthread_join(thread[i], NULL);
}

static void waiting_threads(long n)
{
	pthread_t thread;

	for (long i = 0; i < n; i++)
		pthread_create(&thread, NULL, hanging_thread, NULL);
	while (hanging < n)
		usleep(1000);
}

static void jumps(long n)
{
	for (volatile long i = 0; i < n; i++)
		if (!setjmp(back))
			launch(1, JUMP);
	launch(2, 0);
}

static void values(long unused)
{
	uint32_t config[14] = {10, 11, 12, 13, 14, 15, 16, 0};
	uint64_t copy[25], out = 1;

	(void)unused;
	config[8] = 0x5150, config[9] = 0x1;
	for (int i = 0; i < 25; i++)
		copy[i] = 100 + i;
	cuLaunchKernel(0xf00d00000000ull, 1, 2, 3, 4, 5, 6, 7, 0, NULL, NULL);
	cuLaunchKernelEx(config, 0xbeef, NULL, NULL);
	cuMemcpy3D_v2(copy);
	cuMemcpy3D_v2((void *)16);
	cuMemAlloc_v2(&out, 4096);
	cuMemAlloc_v2(&out, 0);
	cuStreamSynchronize(0);
	cuStreamSynchronize(0);
#ifdef WITH_RUNTIME
	void *memory;
	int device;
	cudaMalloc(&memory, 64);
	cudaMalloc(&memory, 0);
	cudaGetDevice(&device);
	cudaDeviceSynchronize();
#endif
}

static void forks(long n)
{
	pid_t child = fork();

	if (child == 0) {
		launches(n);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	launch(1, 0);
}

static void loads(long unused)
{
	(void)unused;
	if (!dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL))
		abort();
}

/* CPU time, as other programs may be running on the machine. */
static long timed_launches(long n)
{
	struct timespec from, to;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	launches(n);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec;
}

static void timing(long n)
{
	printf("%ld\n", timed_launches(n));
}

static void nested(long depth)
{
	cuStreamSynchronize(DEEPER + depth - 1);
}

static void hang(long unused)
{
	(void)unused;
	puts("hanging");
	fflush(stdout);
	launch(9, HANG);
}

static void renames(long unused)
{
	(void)unused;
	launch(1, 0);
	prctl(PR_SET_NAME, "renamed");
}

/* Handles of two kernels, the second with a name of length letters, a third made
 * from the first, and one that is refused. */
static void symbols(long length)
{
	char *name = calloc(1, (size_t)length + 1);
	uintptr_t f;

	memset(name, 'x', (size_t)length);
	cuModuleGetFunction(&f, 0x10000, "_Z3addPi");
	cuKernelGetFunction(&f, f);
	cuModuleGetFunction(&f, 0x20000, name);
	cuModuleGetFunction(&f, 0x30000, "");
	free(name);
}

/* Launches before, in and after a range. */
static void range(long n)
{
	launches(n);
	cuProfilerStart();
	launches(2 * n);
	cuProfilerStop();
	launches(4 * n);
}

/* Launches in a range that does not end. */
static void begins(long n)
{
	cuProfilerStart();
	launches(n);
}

static void ends(long unused)
{
	(void)unused;
	cuProfilerStop();
}

/* As range, with the runtime's functions, which call the driver's. */
static void runtime_range(long n)
{
	(void)n;
#ifdef WITH_RUNTIME
	launches(n);
	cudaProfilerStart();
	launches(2 * n);
	cudaProfilerStop();
	launches(4 * n);
#endif
}

/* A call that lasts until a line comes. */
static void asks(long gx)
{
	launch((unsigned)gx, ASK);
}

static void copies(long n)
{
	uint64_t copy[25] = {0};

	for (long i = 0; i < n; i++)
		cuMemcpy3D_v2(copy);
}

/* Launches that the runtime refuses. */
static void refused(long n)
{
	(void)n;
#ifdef WITH_RUNTIME
	struct dims one = {1, 1, 1};

	for (long i = 0; i < n; i++)
		cudaLaunchKernel(NULL, one, one, NULL, (size_t)i, 0);
#endif
}

static pthread_t holder;

static void *held_launch(void *shared)
{
	(void)shared;
#ifdef WITH_RUNTIME
	struct dims one = {1, 1, 1};

	cudaLaunchKernel(NULL, one, one, NULL, (size_t)shared, HOLD);
#endif
	return NULL;
}

/* Another thread is in a launch that the runtime will refuse, until it is released. */
static void hold(long shared)
{
	if (pthread_create(&holder, NULL, held_launch, (void *)shared))
		abort();
	while (!held)
		usleep(1000);
}

static void release(long unused)
{
	(void)unused;
	released = 1;
	pthread_join(holder, NULL);
}

/* Functions that take structs by value. */
static void structs(long unused)
{
	(void)unused;
#ifdef WITH_RUNTIME
	struct dims grid = {1, 2, 3}, block = {4, 5, 6};
	struct extent extent = {100, 200, 300};
	struct pitched pitched = {(void *)0x1234000, 512, 64, 65};
	struct handle handle = {{0}};
	struct location location = {1, -7};
	void *memory;
	float ms;

	handle.reserved[63] = 5;
	cudaLaunchKernel((void *)0xabc000, grid, block, NULL, 4096, 0x5151);
	__cudaLaunchKernel(0xdef000, block, grid, NULL, 8192, 0x6161);
	cudaMemset3DAsync(pitched, -2, extent, 0x7171);
	cudaMalloc3D(&pitched, extent);
	cudaIpcOpenMemHandle(&memory, handle, 1);
	cudaMemAdvise_v2((void *)0x99000, 77, 3, location);
	cudaEventElapsedTime(&ms, 10, 12);
#endif
}

/* Has n mappings that can't be merged into one. */
static void mappings(long n)
{
	for (long i = 0; i < n; i++)
		if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			abort();
}

/* Registers with CUPTI as the client whose callback is at this address. */
static void registers(long request)
{
	static void *lib;
	int (*f)(void *, void *);

	if (!lib)
		lib = dlopen("libcupti.so.13", RTLD_NOW);
	if (!lib)
		abort();
	*(void **)&f = dlsym(lib, "cuptiActivityRegisterCallbacks");
	if (f((void *)(uintptr_t)request, (void *)&lib))
		abort();
}

/* One launch, of which the program itself says where it was called. */
static void chain(long unused)
{
	(void)unused;
	printf("%p\n", __builtin_return_address(0));
	launch(1, 0);
}

static ucontext_t here, there;

static void fiber_main(void)
{
	launch(77, 0);
	swapcontext(&there, &here);
}

/* A launch at the very top of a stack, above which nothing can be read. */
static void fiber(long unused)
{
	(void)unused;
	char *stack = mmap(NULL, 3 * 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED || mprotect(stack, 2 * 16384, PROT_READ | PROT_WRITE))
		abort();
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = 2 * 16384;
	makecontext(&there, fiber_main, 0);
	swapcontext(&here, &there);
}

/* A library comes and goes. */
static void unloads(long n)
{
	for (long i = 0; i < n; i++) {
		void *other = dlopen("libhandover.so", RTLD_NOW);
		void *stays = dlopen("libcuda.so.1", RTLD_NOW); /* the program has it */
		if (!other || dlclose(other) || !stays || dlclose(stays))
			abort();
	}
}

/* Unloads a library of a list of its own. */
static void unloads_elsewhere(long n)
{
	for (long i = 0; i < n; i++) {
		void *other = dlmopen(LM_ID_NEWLM, "libhandover.so", RTLD_NOW);
		if (!other || dlclose(other))
			abort();
	}
}

/* The process runs this program again. */
static void again(long unused)
{
	(void)unused;
	execl("/proc/self/exe", "again", NULL);
	abort();
}

static void *again_in_thread(void *n)
{
	launches((long)n);
	again(0);
	return NULL;
}

/* Another thread than the first launches, and makes it run again. */
static void again_by_thread(long n)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, again_in_thread, (void *)n))
		abort();
	pthread_join(thread, NULL);
}

static const struct {
	const char *name;
	void (*run)(long);
} scenarios[] = {
	{"launches", launches}, {"graphs", graphs}, {"threads", threads}, {"jumps", jumps}, {"values", values}, {"forks", forks}, {"loads", loads},
	{"timing", timing}, {"chain", chain}, {"unloads", unloads}, {"unloads-elsewhere", unloads_elsewhere}, {"again", again}, {"again-by-thread", again_by_thread}, {"fiber", fiber},
	{"nested", nested}, {"hang", hang}, {"waiting", waiting_threads}, {"renames", renames},
	{"structs", structs}, {"asks", asks}, {"copies", copies}, {"refused", refused}, {"hold", hold}, {"release", release}, {"runtime-range", runtime_range}, {"mappings", mappings}, {"symbols", symbols}, {"range", range}, {"begins", begins}, {"ends", ends}, {"registers", registers},
};

int main(void)
{
	char name[32];
	long number;

	puts("ready");
	fflush(stdout);
	while (scanf("%31s %ld", name, &number) == 2) {
		for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++)
			if (!strcmp(scenarios[i].name, name))
				scenarios[i].run(number);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
