// Allocates and frees memory of each use, and prints what a recording has to say of it: a line for each use,
//
//	truth USE peak=BYTES allocations=N frees=N left=N bytes=N
//
// and how many more allocations are made in the order of a stream, each of which is freed, when nothing else is live.
//
// Usage: allocations [arrays] [mixed]
//
// With mixed, memory of cudaMalloc is freed in the order of a stream, too. The simulated stack builds this file as C.
#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "../sim/include/cudart_sim.h"
#endif

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE, MANAGED, PINNED, USES, THREADS = 4, TURNS = 50, ORDERED = 10, KIB = 1 << 10, MIB = 1 << 20 };

static const char *const names[] = {"device", "managed", "pinned"};

static struct use {
	size_t live, peak, bytes;
	int allocations, frees;
} uses[USES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void check(int result, const char *what)
{
	if (result != 0) {
		fprintf(stderr, "allocations: %s: error %d\n", what, result);
		exit(1);
	}
}
#define CHECK(call) check(call, #call)

static void took(int which, size_t bytes)
{
	struct use *u = &uses[which];
	pthread_mutex_lock(&lock);
	u->allocations++;
	u->bytes += bytes;
	u->live += bytes;
	if (u->live > u->peak)
		u->peak = u->live;
	pthread_mutex_unlock(&lock);
}

static void gave(int which, size_t bytes)
{
	pthread_mutex_lock(&lock);
	uses[which].frees++;
	uses[which].live -= bytes;
	pthread_mutex_unlock(&lock);
}

static void *device(size_t bytes)
{
	void *p;
	CHECK(cudaMalloc(&p, bytes));
	took(DEVICE, bytes);
	return p;
}

static void free_device(void *p, size_t bytes)
{
	gave(DEVICE, bytes);
	CHECK(cudaFree(p));
}

static void in_order(cudaStream_t stream)
{
	for (int i = 0; i < ORDERED; i++) {
		void *p;
		CHECK(cudaMallocAsync(&p, MIB, stream));
		CHECK(cudaFreeAsync(p, stream));
	}
	CHECK(cudaStreamSynchronize(stream));
}

static void *turns(void *unused)
{
	(void)unused;
	for (int i = 0; i < TURNS; i++) {
		size_t bytes = (size_t)(i % 7 + 1) * 4 * KIB;
		free_device(device(bytes), bytes);
	}
	return NULL;
}

static void on_threads(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, turns, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL));
}

static void of_host(void)
{
	void *a, *b, *m;
	CHECK(cudaMallocHost(&a, 64 * KIB));
	took(PINNED, 64 * KIB);
	CHECK(cudaHostAlloc(&b, 128 * KIB, 0));
	took(PINNED, 128 * KIB); // stays
	gave(PINNED, 64 * KIB);
	CHECK(cudaFreeHost(a));
	CHECK(cudaMallocManaged(&m, 2 * MIB, 1));
	took(MANAGED, 2 * MIB);
	gave(MANAGED, 2 * MIB);
	CHECK(cudaFree(m));
}

static void array(void)
{
	cudaChannelFormatDesc words; // of 32 bits, signed
	memset(&words, 0, sizeof words);
	words.x = 32;
#ifdef __CUDACC__
	cudaArray_t a;
#else
	CUarray a;
#endif
	CHECK(cudaMallocArray(&a, &words, 256, 256, 0));
	took(DEVICE, 256 * KIB);
	gave(DEVICE, 256 * KIB);
	CHECK(cudaFreeArray(a));
}

static void mixed(cudaStream_t stream)
{
	for (int i = 0; i < 3; i++) {
		void *p = device(MIB);
		gave(DEVICE, MIB);
		CHECK(cudaFreeAsync(p, stream));
	}
	CHECK(cudaStreamSynchronize(stream));
}

static int asked(int argc, char **argv, const char *what)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], what) == 0)
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	cudaStream_t stream;
	void *first, *refused;
	CHECK(cudaStreamCreate(&stream));
	in_order(stream);
	if (asked(argc, argv, "mixed"))
		mixed(stream);
	if (asked(argc, argv, "arrays"))
		array();
	first = device(MIB);
	device(3 * MIB); // stays
	free_device(first, MIB);
	on_threads();
	of_host();
	if (cudaMalloc(&refused, (size_t)1 << 50) == 0)
		return 1;
	cudaGetLastError();
	for (int i = 0; i < USES; i++)
		printf("truth %s peak=%zu allocations=%d frees=%d left=%d bytes=%zu\n", names[i], uses[i].peak, uses[i].allocations,
		       uses[i].frees, uses[i].allocations - uses[i].frees, uses[i].bytes);
	printf("ordered allocations=%d bytes=%zu\n", ORDERED, (size_t)ORDERED * MIB);
	fflush(stdout);
	return 0;
}
