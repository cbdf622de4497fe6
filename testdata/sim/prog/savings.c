/*
 * Steps of a training loop with a cause of lost time, and, with --without, the same steps without it: what a finding says the cause
 * costs is compared with what is saved. -c CAUSE names it. A copy of 512 KiB takes 2 ms with CUDASIM_HOST_MB_S=250.
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels.h"
#include "nvtx_sim.h"
#include "options.h"

#define MS 1000000L
#define BYTES (512 << 10)

static void nothing(void **args, const struct sim_launch *launch)
{
	(void)args;
	(void)launch;
}

/* The shared memory of ranks: when each has entered each collective, and how many are ready for the first step. */
static struct {
	_Atomic uint64_t entered[2][256];
	_Atomic int ready;
} *shared;
static int rank, collectives;

/* A collective ends 0.1 ms after the last rank has entered it. */
static void collective(void **args, const struct sim_launch *launch)
{
	uint64_t *time = args[0], other;
	(void)launch;
	shared->entered[rank][collectives] = *time;
	while (!(other = shared->entered[!rank][collectives]))
		usleep(20);
	*time = (*time > other ? *time : other) + MS / 10;
	collectives++;
}

#define REDUCE "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"
KERNEL_STUB(early, "_Z5earlyv")
KERNEL_STUB(one, "_Z3onev")
KERNEL_STUB(five, "_Z4fivev")
KERNEL_STUB(reduce, REDUCE)
static const struct sim_kernel kernels[] = {
	{"_Z5earlyv", nothing, 8, 0, 0, MS / 5, 0, {0}},
	{"_Z3onev", nothing, 8, 0, 0, MS, 0, {0}},
	{"_Z4fivev", nothing, 8, 0, 0, 5 * MS, 0, {0}},
	{REDUCE, collective, 8, 0, 0, SIM_BODY_ENDS, 1, {8}},
};
static const struct stub stubs[] = {{early}, {one}, {five}, {reduce}};
REGISTER_KERNELS(kernels, stubs)
enum { EARLY, ONE, FIVE, REDUCED };

static cudaStream_t a, b, blocking[2]; /* the latter wait for the default stream, if the cause is there */
static cudaEvent_t first, copied[2], used[2], done[2];
static void *host, *pinned, *device[2];
static bool there = true;
static int pipes[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long turn;

static void launch(int which, int n, cudaStream_t s)
{
	dim3 grid = {4, 1, 1}, block = {64, 1, 1};
	uint64_t time = 0;
	void *args[] = {&time};
	for (int i = 0; i < n; i++)
		CHECK(cudaLaunchKernel(host_address(stubs[which]), grid, block, args, 0, s));
}

static void pause_for(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void spin(long ns)
{
	struct timespec begun, now;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begun.tv_sec) * 1000 * MS + now.tv_nsec - begun.tv_nsec < ns);
}

static void end_with(cudaStream_t s, long i)
{
	CHECK(cudaEventRecord(done[i % 2], s));
	CHECK(cudaEventSynchronize(done[i % 2]));
}

/* The CPU may be a step ahead. */
static void end_ahead(cudaStream_t s, long i)
{
	CHECK(cudaEventRecord(done[i % 2], s));
	if (i > 0)
		CHECK(cudaEventSynchronize(done[(i - 1) % 2]));
}

/* Much work is queued while the CPU sleeps. */
static void behind(long ns)
{
	launch(EARLY, 1, a);
	CHECK(cudaEventRecord(first, a));
	launch(FIVE, 1, a);
	CHECK(cudaEventSynchronize(first));
	if (there)
		pause_for(ns);
}

static void cause_behind(long i)
{
	(void)i;
	behind(4 * MS);
}

static void cause_partly(long i)
{
	(void)i;
	behind(8 * MS);
}

/* A stream copies ahead while another one computes. */
static void cause_pipeline(long i)
{
	if (there) {
		CHECK(cudaStreamWaitEvent(b, used[i % 2], 0));
		CHECK(cudaMemcpyAsync(device[i % 2], pinned, BYTES, cudaMemcpyHostToDevice, b));
		CHECK(cudaEventRecord(copied[i % 2], b));
		CHECK(cudaStreamWaitEvent(a, copied[i % 2], 0));
	}
	launch(FIVE, 1, a);
	CHECK(cudaEventRecord(used[i % 2], a));
	end_ahead(a, i);
}

/* The same on the computing stream. */
static void cause_copy(long i)
{
	if (there)
		CHECK(cudaMemcpyAsync(device[0], pinned, BYTES, cudaMemcpyHostToDevice, a));
	launch(ONE, 4, a);
	end_ahead(a, i);
}

/* The longer one of two streams does not wait for the sleep. */
static void cause_beside(long i)
{
	launch(FIVE, 1, a);
	if (there)
		pause_for(3 * MS / 2);
	launch(ONE, 3, b);
	CHECK(cudaEventRecord(first, b));
	CHECK(cudaStreamWaitEvent(a, first, 0));
	end_with(a, i);
}

/* The shorter one becomes the longer one by the sleep. */
static void cause_longer(long i)
{
	launch(FIVE, 1, a);
	if (there)
		pause_for(4 * MS);
	launch(ONE, 3, b);
	CHECK(cudaEventRecord(first, b));
	CHECK(cudaStreamWaitEvent(a, first, 0));
	end_with(a, i);
}

static void cause_sleep(long i)
{
	launch(ONE, 3, a);
	end_with(a, i);
	if (there)
		pause_for(4 * MS);
}

/* Another cause stays. */
static void cause_one(long i)
{
	spin(2 * MS);
	cause_sleep(i);
}

static void cause_compute(long i)
{
	launch(ONE, 3, a);
	end_with(a, i);
	if (there)
		spin(3 * MS);
}

/* One kernel runs while the CPU sleeps. */
static void cause_mid(long i)
{
	launch(ONE, 1, a);
	if (there)
		pause_for(4 * MS);
	launch(ONE, 4, a);
	end_with(a, i);
}

static void synchronize(long i, bool device_wide)
{
	launch(ONE, 3, a);
	if (there && device_wide)
		CHECK(cudaDeviceSynchronize());
	spin(2 * MS);
	launch(ONE, 3, a);
	spin(2 * MS);
	end_ahead(a, i);
}

static void cause_sync(long i)
{
	synchronize(i, true);
}

/* It is waited for, anyway. */
static void cause_needless(long i)
{
	launch(ONE, 4, a);
	if (there)
		CHECK(cudaDeviceSynchronize());
	end_with(a, i);
}

static void cause_pageable(long i)
{
	if (there)
		CHECK(cudaMemcpy(device[0], host, BYTES, cudaMemcpyHostToDevice));
	else
		CHECK(cudaMemcpyAsync(device[0], pinned, BYTES, cudaMemcpyHostToDevice, NULL));
	spin(2 * MS);
	launch(ONE, 1, a);
	end_with(a, i);
}

/* Copies of pageable memory beside a longer kernel. */
static void cause_covered(long i)
{
	launch(FIVE, 1, a);
	if (there)
		CHECK(cudaMemcpy(device[0], host, BYTES, cudaMemcpyHostToDevice));
	end_with(a, i);
}

static void cause_small(long i)
{
	for (int k = 0; k < (there ? 8 : 1); k++) /* 0.2 ms each */
		CHECK(cudaMemcpyAsync((char *)device[0] + k * (48 << 10), pinned, 48 << 10, cudaMemcpyHostToDevice, a));
	launch(ONE, 2, a);
	end_with(a, i);
}

/* Streams take turns with the default stream, without: all are side by side. */
static void cause_serial_work(void)
{
	launch(ONE, 3, blocking[0]);
	CHECK(cudaMemcpyAsync(device[0], pinned, BYTES, cudaMemcpyHostToDevice, there ? NULL : b));
	launch(ONE, 3, blocking[1]);
}

static void cause_serial(long i)
{
	cause_serial_work();
	end_with(blocking[1], i);
}

/* Turns of threads: what is reached, from 1, and the wait for it. */
static void reach(long *what, long n)
{
	pthread_mutex_lock(&turn_lock);
	*what = n;
	pthread_cond_broadcast(&turned);
	pthread_mutex_unlock(&turn_lock);
}

static void await(const long *what, long n)
{
	pthread_mutex_lock(&turn_lock);
	while (*what < n)
		pthread_cond_wait(&turned, &turn_lock);
	pthread_mutex_unlock(&turn_lock);
}

static void *writer(void *unused)
{
	char c;
	(void)unused;
	for (long n = 1;; n++) {
		await(&turn, n);
		if (there)
			pause_for(3 * MS);
		c = 1;
		if (write(pipes[1], &c, 1) != 1)
			exit(1);
	}
	return NULL;
}

/* Data from a pipe come late. */
static void cause_pipe(long i)
{
	char c;
	launch(ONE, 2, a);
	end_with(a, i);
	reach(&turn, i + 1);
	if (read(pipes[0], &c, 1) != 1)
		exit(1);
}

static void *feeder(void *unused)
{
	char c = 1;
	(void)unused;
	for (;;) {
		pause_for(6 * MS);
		pthread_mutex_lock(&turn_lock);
		bool begun = turn > 0;
		pthread_mutex_unlock(&turn_lock);
		if (!begun)
			continue;
		if (write(pipes[1], &c, 1) != 1)
			exit(1);
	}
	return NULL;
}

/* The CPU sleeps while data are made ready that come through a pipe. */
static void cause_fed(long i)
{
	char c;
	launch(ONE, 2, a);
	end_with(a, i);
	pthread_mutex_lock(&turn_lock);
	turn++;
	pthread_mutex_unlock(&turn_lock);
	if (there)
		pause_for(2 * MS);
	if (read(pipes[0], &c, 1) != 1)
		exit(1);
}

static void *holder(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_mutex_lock(&lock);
		if (there)
			pause_for(5 * MS);
		pthread_mutex_unlock(&lock);
		pause_for(MS);
	}
	return NULL;
}

static void cause_lock(long i)
{
	launch(ONE, 2, a);
	end_with(a, i);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

static long finished;

static void *helper(void *unused)
{
	(void)unused;
	for (long n = 1;; n++) {
		await(&turn, n);
		launch(ONE, 2, b);
		CHECK(cudaStreamSynchronize(b));
		reach(&finished, n);
	}
	return NULL;
}

/* The CPU computes in a step of which another thread, which waits for its turn, makes a shorter part. */
static void cause_turns(long i)
{
	reach(&turn, i + 1);
	launch(ONE, 2, a);
	CHECK(cudaStreamSynchronize(a));
	if (there)
		spin(2 * MS);
	launch(ONE, 2, a);
	end_with(a, i);
	await(&finished, i + 1);
}

/* So much is launched ahead that launches wait for the queue; the CPU sleeps less than that. */
static void cause_queue(long i)
{
	(void)i;
	if (there)
		pause_for(2 * MS);
	launch(EARLY, 40, a);
}

/* Of two ranks one sleeps. */
static void cause_straggler(long i)
{
	if (there && rank == 1)
		pause_for(3 * MS);
	launch(ONE, 2, a);
	launch(REDUCED, 1, a);
	end_with(a, i);
}

/* Both ranks sleep: what one of them saves the other one takes over. */
static void cause_even(long i)
{
	if (rank == 0 || there)
		pause_for(3 * MS);
	launch(ONE, 2, a);
	launch(REDUCED, 1, a);
	end_with(a, i);
}

/* One rank comes late into a collective that runs beside longer kernels. */
static void cause_hidden(long i)
{
	launch(ONE, 4, a);
	if (there && rank == 1)
		pause_for(3 * MS / 2);
	launch(REDUCED, 1, b);
	CHECK(cudaEventRecord(first, b));
	CHECK(cudaStreamWaitEvent(a, first, 0));
	end_with(a, i);
}

static void sleeps(void *unused)
{
	(void)unused;
	pause_for(83 * MS / 10);
}

/* Streams take turns while the CPU waits for a host function, which is not recorded. */
static void cause_host(long i)
{
	CHECK(cudaLaunchHostFunc(a, sleeps, NULL));
	cause_serial_work();
	CHECK(cudaStreamSynchronize(a));
	(void)i;
}

static void *worker(void *unused)
{
	(void)unused;
	for (long n = 1;; n++) {
		await(&turn, n);
		if (there)
			spin(4 * MS);
		launch(EARLY, 1, b);
		CHECK(cudaStreamSynchronize(b));
		reach(&finished, n);
		if (there)
			spin(4 * MS);
		launch(EARLY, 1, b);
		CHECK(cudaStreamSynchronize(b));
	}
	return NULL;
}

/* A thread waits for another one, which computes, and then sleeps while that one goes on. */
static void cause_mixed(long i)
{
	reach(&turn, i + 1);
	await(&finished, i + 1);
	pause_for(5 * MS);
	launch(ONE, 1, a);
	end_with(a, i);
}

static const struct {
	const char *name;
	void (*step)(long i);
	long steps;
} causes[] = {
	{"behind", cause_behind, 40}, {"partly", cause_partly, 40}, {"pipeline", cause_pipeline, 40}, {"copy", cause_copy, 40},
	{"beside", cause_beside, 40}, {"longer", cause_longer, 40}, {"sleep", cause_sleep, 40}, {"one", cause_one, 40}, {"compute", cause_compute, 40}, {"mid", cause_mid, 40},
	{"sync", cause_sync, 40}, {"needless", cause_needless, 40}, {"pageable", cause_pageable, 40}, {"covered", cause_covered, 40},
	{"small", cause_small, 40}, {"pipe", cause_pipe, 80}, {"lock", cause_lock, 40}, {"fed", cause_fed, 60}, {"queue", cause_queue, 60},
	{"straggler", cause_straggler, 40}, {"even", cause_even, 40}, {"hidden", cause_hidden, 40}, {"turns", cause_turns, 40}, {"serial", cause_serial, 40}, {"host", cause_host, 40}, {"mixed", cause_mixed, 40},
};

static void run(void (*step)(long i), long steps)
{
	CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&blocking[0], there ? cudaStreamDefault : cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&blocking[1], there ? cudaStreamDefault : cudaStreamNonBlocking));
	cudaEvent_t *const events[] = {&first, &copied[0], &copied[1], &used[0], &used[1], &done[0], &done[1]};
	for (size_t i = 0; i < sizeof events / sizeof *events; i++)
		CHECK(cudaEventCreate(events[i]));
	CHECK(cudaMallocHost(&pinned, BYTES));
	CHECK(cudaMalloc(&device[0], BYTES));
	CHECK(cudaMalloc(&device[1], BYTES));
	if (!(host = calloc(1, BYTES)))
		exit(1);
	for (int which = EARLY; which <= FIVE; which++) /* nothing is launched for the first time later */
		launch(which, 1, a);
	CHECK(cudaMemcpy(device[0], pinned, 1 << 10, cudaMemcpyHostToDevice));
	CHECK(cudaDeviceSynchronize());
	if (shared)
		for (shared->ready++; shared->ready < 2;)
			usleep(20);
	for (long i = 0; i < steps; i++) {
		char text[32];
		snprintf(text, sizeof text, "step %ld", i);
		nvtxRangePushA(text);
		step(i);
		nvtxRangePop();
	}
	CHECK(cudaDeviceSynchronize());
}

/* Runs the program as two ranks that share memory. */
static int launch_ranks(char **argv)
{
	int fd = memfd_create("ranks", 0), bad = fd < 0 || ftruncate(fd, sizeof *shared), status;
	char text[16];
	snprintf(text, sizeof text, "%d", fd);
	setenv("SHARED", text, 1);
	setenv("WORLD_SIZE", "2", 1);
	for (int i = 0; i < 2 && !bad; i++) {
		pid_t child = fork();
		if (child == 0) {
			setenv("RANK", i ? "1" : "0", 1);
			execv("/proc/self/exe", argv);
			_exit(1);
		}
		bad = child < 0;
	}
	while (wait(&status) > 0)
		bad |= status != 0;
	return bad != 0;
}

static bool share(void)
{
	const char *fd = getenv("SHARED");
	rank = atoi(getenv("RANK"));
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd ? atoi(fd) : -1, 0);
	return shared != MAP_FAILED;
}

int main(int argc, char **argv)
{
	const char *cause = option_text(argc, argv, "-c", "");
	size_t i = 0, n = sizeof causes / sizeof *causes;
	while (i < n && strcmp(causes[i].name, cause) != 0)
		i++;
	if (i == n) {
		fprintf(stderr, "no cause %s\n", cause);
		return 2;
	}
	there = !option_flag(argc, argv, "--without");
	bool ranks = causes[i].step == cause_straggler || causes[i].step == cause_even || causes[i].step == cause_hidden;
	if (ranks && !getenv("RANK"))
		return launch_ranks(argv);
	if (ranks && !share())
		return 1;
	if (pipe(pipes))
		return 1;
	pthread_t thread;
	if (causes[i].step == cause_pipe && pthread_create(&thread, NULL, writer, NULL))
		return 1;
	if (causes[i].step == cause_fed && pthread_create(&thread, NULL, feeder, NULL))
		return 1;
	if (causes[i].step == cause_turns && pthread_create(&thread, NULL, helper, NULL))
		return 1;
	if (causes[i].step == cause_mixed && pthread_create(&thread, NULL, worker, NULL))
		return 1;
	if (causes[i].step == cause_lock && pthread_create(&thread, NULL, holder, NULL))
		return 1;
	run(causes[i].step, causes[i].steps);
	return 0;
}
