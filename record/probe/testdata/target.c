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
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int cuLaunchKernel(uintptr_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uintptr_t, void **, void **);
int cuLaunchKernelEx(const void *, uintptr_t, void **, void **);
int cuMemcpy3D_v2(const void *);
int cuMemAlloc_v2(uint64_t *, size_t);
int cuStreamSynchronize(uintptr_t);
#ifdef WITH_RUNTIME
int cudaMalloc(void **, size_t);
int cudaGetDevice(int *);
int cudaStreamSynchronize(uintptr_t);
int cudaDeviceSynchronize(void);
#endif

enum { JUMP = 1000, HANG, DEEPER };

static __thread jmp_buf back;

/* What the libraries call inside a call: the stream says what is to happen there. */
void during_call(uintptr_t stream)
{
	if (stream == JUMP)
		longjmp(back, 1);
	if (stream == HANG)
		for (;;)
			pause();
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
	usleep(50000);
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
static void timing(long n)
{
	struct timespec from, to;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	launches(n);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	printf("%ld\n", (to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec);
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

static const struct {
	const char *name;
	void (*run)(long);
} scenarios[] = {
	{"launches", launches}, {"threads", threads}, {"jumps", jumps}, {"values", values}, {"forks", forks}, {"loads", loads},
	{"timing", timing}, {"nested", nested}, {"hang", hang}, {"waiting", waiting_threads}, {"renames", renames},
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
