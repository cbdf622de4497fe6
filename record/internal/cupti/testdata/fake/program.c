/*
 * program MODE THREADS LAUNCHES: a process as the injected library meets it. It
 * loads the library as the driver does in cuInit, launches on each thread (an
 * API record and a kernel record each), prints a line and ends as MODE says with
 * exit code 7:
 *   return       from main
 *   thread-exit  exit called by another thread while main waits
 *   fork         a child forked in between ends first, through its exit handlers
 *   orphan       without exit handlers, while a forked child waits for its input
 *   close-fds    every descriptor above 2 is closed and given away in between
 *   wait         launches, waits for its standard input to end, launches again
 *   off          as wait, and before it launches again all must be off in CUPTI
 *   others       one record of each kind but launches
 *   range        launches before, between and after cudaProfilerStart and Stop
 *   phases       a letter of its standard input each: w launches, s prints what is on
 *   client       launches, becomes a CUPTI client itself, launches, waits; its
 *                client frees buffers, and must not be called once main has returned
 *   names        a name of its own for each launch
 *   _exit        without exit handlers
 *   hold         launches, prints a line, and is in calls of CUPTI ever after
 *   spin         launches, prints a line, and runs on without system calls
 *   urgent       as wait, with a handler of its own for SIGURG from before CUDA
 *   chain        by SIGTERM, whose handler, installed after CUDA, calls the one before
 *   fork-signal  by SIGTERM, after a forked child did so, which SIGURG leaves alone
 *   forks        FORKS children forked while the threads launch end, in turns, through
 *                exit, quick_exit, _exit and SIGTERM
 *   crash-all    by SIGSEGV on every thread
 *   fails        the last launch fails; empties: it succeeds, and gives the GPU no work;
 *                allocates: the last call is no launch
 *   sandbox      launches, puts itself into the sandbox that SANDBOX describes, launches, waits, launches
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"
#include "../../../../../testdata/sim/prog/sandbox.h"

static const char *mode;
static int launches;
static _Atomic uint32_t correlation;

int cuDriverGetVersion(int *v)
{
	const char *s = getenv("FAKE_DRIVER");
	*v = s ? atoi(s) : 13000;
	return 0;
}

int cuDeviceGetCount(int *n)
{
	*n = 1;
	fake_api(1, 4, (uint32_t)syscall(SYS_gettid), 0);
	return 0;
}

#define OWN 4000
static char own[OWN][24]; /* CUPTI's strings live on */

static const char *name_of(int i)
{
	static const char *const names[] = {"_Z3addPfS_", "_Z3mulIfEvPT_", "gemm"};
	return strcmp(mode, "names") == 0 ? own[i % OWN] : names[i % 3];
}

static void *launch(void *arg)
{
	static _Thread_local uint32_t tid; /* a sandbox may refuse to tell */
	if (tid == 0)
		tid = (uint32_t)syscall(SYS_gettid);
	for (int i = 0; i < launches; i++) {
		uint32_t id = ++correlation;
		fake_api(2, 211, tid, id);
		fake_api(2, 1, tid, id); /* a call that nobody wants */
		fake_kernel(name_of(i), 7 + (uint32_t)(uintptr_t)arg, id);
	}
	return NULL;
}

static void launch_all(int threads)
{
	pthread_t t[256];
	for (int i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, launch, (void *)(uintptr_t)i);
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
}

static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*initialize)(void) = NULL;
	if (library)
		*(void **)&initialize = dlsym(library, "InitializeInjection");
	if (initialize && initialize() != 1)
		exit(99);
}

static void fork_child(void)
{
	pid_t child = fork();
	if (child == 0)
		exit(3);
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
		exit(98);
}

static void leave_child(void)
{
	if (fork() == 0) {
		while (getchar() != EOF)
			;
		exit(3);
	}
	_exit(7);
}

/* Closes what is not its own and opens files in its place, as a daemon might. */
static void close_fds(void)
{
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	for (int i = 0; i < 40; i++)
		if (open("given-away", O_RDWR | O_CREAT | O_APPEND, 0600) < 0)
			exit(97);
}

static struct sigaction before;

static void chained(int signal, siginfo_t *info, void *context)
{
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(signal, info, context);
	_exit(94);
}

static void nothing(int signal)
{
	(void)signal;
}

static void chain(void)
{
	struct sigaction own = {.sa_sigaction = chained, .sa_flags = SA_SIGINFO};
	sigaction(SIGTERM, &own, &before);
	raise(SIGTERM);
}

static void signal_child(void)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		raise(SIGURG);
		raise(SIGTERM);
		_exit(93);
	}
	if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
		exit(92);
	raise(SIGTERM);
}

/* A call without a kernel. */
static void call_alone(uint32_t cbid, uint32_t result)
{
	fake_result = result;
	fake_api(2, cbid, (uint32_t)syscall(SYS_gettid), ++correlation);
}

static void hold(void)
{
	launch(NULL);
	printf("waiting\n");
	fflush(stdout);
	for (;;)
		fake_hold();
}

static void spin(void)
{
	static volatile int turns;
	launch(NULL);
	printf("waiting\n");
	fflush(stdout);
	for (;;)
		turns++;
}

#define FORKS 200

static void *fork_many(void *arg)
{
	for (int i = 0; i < FORKS; i++) {
		int status, way = i % 4;
		pid_t child = fork();
		if (child == 0) {
			alarm(20); /* were it to hang */
			if (way == 0)
				exit(3);
			if (way == 1)
				quick_exit(3);
			if (way == 2)
				_exit(3);
			raise(SIGTERM);
		}
		if (child < 0 || waitpid(child, &status, 0) != child)
			exit(91);
		if (way == 3 ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM : status != 3 << 8)
			exit(90);
	}
	return arg;
}

static pthread_barrier_t together;

static void *crash(void *arg)
{
	static volatile int *volatile nowhere;
	pthread_barrier_wait(&together);
	*nowhere = 1;
	return arg;
}

static void crash_all(int threads)
{
	pthread_t t;
	pthread_barrier_init(&together, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++)
		pthread_create(&t, NULL, crash, NULL);
	pause();
}

static void *end(void *arg)
{
	(void)arg;
	exit(7);
}

static void wait_for_input(int threads)
{
	launch_all(threads);
	printf("waiting\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

/* On one thread: a sandbox may forbid new ones. */
static void play_in_sandbox(void)
{
	char c;
	launch(NULL);
	sandbox_enter(getenv("SANDBOX"));
	launch(NULL);
	printf("waiting\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	launch(NULL);
}

static void phases(int threads)
{
	for (int c; (c = getchar()) != EOF;) {
		if (c == 'w')
			launch_all(threads);
		printf("%d\n", fake_enabled());
		fflush(stdout);
	}
}

static _Atomic int over;

static void own_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	*size = 1 << 20;
	*buffer = malloc(*size);
	*max_records = 0;
}

static void own_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context, (void)stream, (void)size, (void)valid;
	if (over)
		_exit(95);
	free(buffer);
}

static void become_client(int threads)
{
	launch_all(threads);
	cuptiActivityRegisterCallbacks((void *)own_request, (void *)own_complete);
	wait_for_input(threads);
}

static void launch_around_range(int threads)
{
	launch_all(threads);
	fake_profiler(1);
	launch_all(threads);
	fake_profiler(0);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	mode = argv[1];
	launches = atoi(argv[3]);
	int threads = atoi(argv[2]);
	for (int i = 0; i < OWN; i++)
		snprintf(own[i], sizeof own[i], "kernel_number_%d", i);
	if (strcmp(mode, "hold") == 0) {
		inject();
		hold();
	}
	if (strcmp(mode, "spin") == 0) {
		inject();
		spin();
	}
	if (strcmp(mode, "urgent") == 0)
		signal(SIGURG, nothing);
	inject();
	if (strcmp(mode, "wait") == 0 || strcmp(mode, "urgent") == 0 || strcmp(mode, "off") == 0)
		wait_for_input(threads);
	for (int i = 0; strcmp(mode, "off") == 0 && fake_enabled() > 0; i++) {
		if (i == 20000)
			exit(96);
		usleep(1000);
	}
	if (strcmp(mode, "fork") == 0)
		fork_child();
	if (strcmp(mode, "close-fds") == 0)
		close_fds();
	if (strcmp(mode, "others") == 0)
		fake_others();
	if (strcmp(mode, "range") == 0)
		launch_around_range(threads);
	if (strcmp(mode, "phases") == 0)
		phases(threads);
	if (strcmp(mode, "client") == 0)
		become_client(threads);
	pthread_t forker;
	bool forks = strcmp(mode, "forks") == 0 && pthread_create(&forker, NULL, fork_many, NULL) == 0;
	bool fails = strcmp(mode, "fails") == 0, empties = strcmp(mode, "empties") == 0, allocates = strcmp(mode, "allocates") == 0;
	if (fails || empties || allocates)
		fake_result = 0;
	if (strcmp(mode, "sandbox") == 0)
		play_in_sandbox();
	else
		launch_all(threads);
	if (forks)
		pthread_join(forker, NULL);
	if (fails || empties || allocates)
		call_alone(allocates ? 20 : 211, fails ? 719 : 0);
	printf("launched %d dropped %llu\n", (int)correlation, (unsigned long long)fake_dropped());
	fflush(stdout);
	if (strcmp(mode, "orphan") == 0)
		leave_child();
	if (strcmp(mode, "chain") == 0)
		chain();
	if (strcmp(mode, "fork-signal") == 0)
		signal_child();
	if (strcmp(mode, "crash-all") == 0)
		crash_all(threads);
	if (strcmp(mode, "_exit") == 0)
		_exit(7);
	if (strcmp(mode, "thread-exit") == 0) {
		pthread_t t;
		pthread_create(&t, NULL, end, NULL);
		pause();
	}
	over = 1;
	return 7;
}
