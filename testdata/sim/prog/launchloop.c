/* Launches many small kernels from several threads on several streams; with -i, until standard input ends. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "kernels.h"

#define SYNC_EVERY 500
#define MAX_KERNELS 64

/* template <int N> void step(float *) */
#define EACH_KERNEL(X) \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
	X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31) \
	X(32) X(33) X(34) X(35) X(36) X(37) X(38) X(39) X(40) X(41) X(42) X(43) X(44) X(45) X(46) X(47) \
	X(48) X(49) X(50) X(51) X(52) X(53) X(54) X(55) X(56) X(57) X(58) X(59) X(60) X(61) X(62) X(63)

static void step_body(void **args, const struct sim_launch *launch)
{
	(void)launch;
	**(float **)args[0] += 1;
}

#define STUB(n) KERNEL_STUB(step_##n, "_Z4stepILi" #n "EEvPf")
EACH_KERNEL(STUB)

#define KERNEL(n) {"_Z4stepILi" #n "EEvPf", step_body, 10 + n % 30, n % 4 * 1024, 0, 0, 1, {8}},
static const struct sim_kernel kernels[MAX_KERNELS] = {EACH_KERNEL(KERNEL)};
#define HOST(n) {step_##n},
static const struct stub stubs[MAX_KERNELS] = {EACH_KERNEL(HOST)};
REGISTER_KERNELS(kernels, stubs)

static struct {
	long launches;
	int threads, streams, kernels;
	bool ends;           /* when standard input does */
	_Atomic bool over;
	cudaStream_t stream[256];
	float *cell[256];
	pthread_barrier_t start;
} loop = {.launches = 100000, .threads = 1, .streams = 1, .kernels = 1};

struct worker {
	pthread_t thread;
	int index;
	double busy; /* seconds */
	long made;
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The n-th launch of a thread, on streams that no other thread uses if there are
 * enough of them. */
static void launch(int thread, long n)
{
	int own = loop.streams / loop.threads;
	int stream = own ? thread + (int)(n % own) * loop.threads : thread % loop.streams;
	dim3 grid = {1 + (unsigned)(n % 4), 1, 1}, block = {32, 1, 1};
	void *args[] = {&loop.cell[stream]};
	CHECK(cudaLaunchKernel(host_address(stubs[n % loop.kernels]), grid, block, args, 0, loop.stream[stream]));
}

static void *run(void *arg)
{
	struct worker *w = arg;
	long count = loop.launches / loop.threads + (w->index < loop.launches % loop.threads);
	pthread_barrier_wait(&loop.start);
	double begin = now();
	for (long n = 0; n < count && !loop.over; n++, w->made++) {
		launch(w->index, n);
		if (n % SYNC_EVERY == SYNC_EVERY - 1)
			CHECK(cudaDeviceSynchronize());
	}
	CHECK(cudaDeviceSynchronize());
	w->busy = now() - begin;
	return NULL;
}

static long parse(int argc, char **argv, int *i, long max)
{
	char *end = "";
	long v = *i + 1 < argc ? strtol(argv[++*i], &end, 10) : 0;
	if (v < 1 || v > max || *end) {
		fprintf(stderr, "usage: launchloop [-n LAUNCHES] [-t THREADS] [-s STREAMS] [-k KERNELS] [-i]\n"
				"at most 256 threads and streams, 64 kernels\n");
		exit(2);
	}
	return v;
}

static void options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-n"))
			loop.launches = parse(argc, argv, &i, 1000000000);
		else if (!strcmp(argv[i], "-t"))
			loop.threads = (int)parse(argc, argv, &i, 256);
		else if (!strcmp(argv[i], "-s"))
			loop.streams = (int)parse(argc, argv, &i, 256);
		else if (!strcmp(argv[i], "-k"))
			loop.kernels = (int)parse(argc, argv, &i, MAX_KERNELS);
		else if (!strcmp(argv[i], "-i"))
			loop.ends = true;
		else
			parse(0, NULL, &i, 0);
	}
}

int main(int argc, char **argv)
{
	static struct worker workers[256];
	double busy = 0;
	long made = 0;
	options(argc, argv);
	for (int i = 0; i < loop.streams; i++) {
		CHECK(cudaStreamCreateWithFlags(&loop.stream[i], cudaStreamNonBlocking));
		CHECK(cudaMalloc((void **)&loop.cell[i], sizeof(float)));
	}
	pthread_barrier_init(&loop.start, NULL, (unsigned)loop.threads);
	for (int i = 0; i < loop.threads; i++) {
		workers[i].index = i;
		if (pthread_create(&workers[i].thread, NULL, run, &workers[i])) {
			fprintf(stderr, "launchloop: cannot start thread %d of %d\n", i + 1, loop.threads);
			return 1;
		}
	}
	while (loop.ends && getchar() != EOF)
		;
	loop.over = loop.ends;
	for (int i = 0; i < loop.threads; i++) {
		pthread_join(workers[i].thread, NULL);
		busy += workers[i].busy;
		made += workers[i].made;
	}
	float total = 0;
	for (int i = 0; i < loop.streams; i++)
		total += *loop.cell[i];
	printf("launchloop: %ld launches, %d threads, %d streams, %d kernels, %.0f ran\n", made, loop.threads,
	       loop.streams, loop.kernels, (double)total);
	printf("%.0f ns per launch\n", busy / (double)made * 1e9); /* of the thread's time */
	return (long)total != made && made < 1 << 24;
}
