// Launches N kernels and ends in the way that its first argument names, without waiting for
// the last of them. Prints the number of launches before the last launch.
//
// Usage: exits MODE [-n N] [-c CODE] [--group] [--handlers | --handlers-late]
// MODE: return exit _exit quick-exit abort segv int term hup kill exception exec
//       thread-exit fork-child daemon device-reset hang nothing
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static long launches = 100000;
static int code;
static bool group;
static int *cell;
static cudaStream_t stream;
static const char *mode;

__global__ void last(int *p) { *p += 1; }

// Runs until the process is gone.
__global__ void forever(volatile int *p)
{
	while (*p >= 0)
		;
}

static void check(cudaError_t e, int line)
{
	if (e == cudaSuccess)
		return;
	fprintf(stderr, "exits.cu:%d: %s\n", line, cudaGetErrorString(e));
	_exit(99);
}
#define CHECK(call) check((call), __LINE__)

static void launch(long n)
{
	for (long i = 0; i < n; i++)
		last<<<1, 1, 0, stream>>>(cell);
	CHECK(cudaGetLastError());
}

// Launches the remaining kernels but the last, prints the counts, and launches the last.
static void launch_to_the_end(long before = 0)
{
	launch(launches - before - 1);
	printf("counts kernels=%ld copies=0 sets=1\n", launches);
	fflush(stdout);
	if (!strcmp(mode, "hang"))
		forever<<<1, 1, 0, stream>>>(cell);
	else
		launch(1);
}

static int die_by(int signal)
{
	launch_to_the_end();
	kill(group ? 0 : getpid(), signal);
	for (;;)
		pause();
}

static void *half(void *)
{
	launch(launches / 2);
	return NULL;
}

static void *rest(void *)
{
	launch_to_the_end(launches / 2);
	exit(code);
}

static int by_threads()
{
	pthread_t first, second;
	pthread_create(&first, NULL, half, NULL);
	pthread_join(first, NULL);
	pthread_create(&second, NULL, rest, NULL);
	pthread_join(second, NULL);
	return 1;
}

static int by_fork_child()
{
	int status = 0;
	launch(launches / 2);
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	waitpid(child, &status, 0);
	launch_to_the_end(launches / 2);
	return status ? 1 : code;
}

static int end()
{
	static volatile int *volatile nowhere;
	static const struct {
		const char *name;
		int signal;
	} signals[] = {{"int", SIGINT}, {"term", SIGTERM}, {"hup", SIGHUP}, {"kill", SIGKILL}};
	char text[16];
	for (auto &s : signals)
		if (!strcmp(mode, s.name))
			return die_by(s.signal);
	if (!strcmp(mode, "thread-exit"))
		return by_threads();
	if (!strcmp(mode, "fork-child"))
		return by_fork_child();
	launch_to_the_end();
	if (!strcmp(mode, "exit"))
		exit(code);
	if (!strcmp(mode, "_exit"))
		_exit(code);
	if (!strcmp(mode, "quick-exit"))
		quick_exit(code);
	if (!strcmp(mode, "abort"))
		abort();
	if (!strcmp(mode, "segv"))
		*nowhere = 1;
	if (!strcmp(mode, "exception"))
		throw 1;
	if (!strcmp(mode, "exec")) {
		snprintf(text, sizeof text, "%d", code);
		execl("/proc/self/exe", "exits", "nothing", "-c", text, (char *)NULL);
	}
	if (!strcmp(mode, "device-reset"))
		CHECK(cudaDeviceReset());
	if (!strcmp(mode, "hang"))
		CHECK(cudaStreamSynchronize(stream));
	return code;
}

// Runs on in a new session after the first process has ended.
static void become_daemon()
{
	pid_t parent = getpid(), child = fork();
	if (child > 0)
		_exit(0);
	setsid();
	while (getppid() == parent)
		usleep(1000);
}

static void handled(int signal)
{
	if (write(1, "handled\n", 8) < 0)
		_exit(1);
	_exit(100 + signal);
}

static void install()
{
	for (int s : {SIGINT, SIGTERM, SIGHUP, SIGSEGV, SIGABRT})
		signal(s, handled);
}

int main(int argc, char **argv)
{
	bool before = false, after = false;
	mode = argc > 1 ? argv[1] : "return";
	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "-n") && i + 1 < argc)
			launches = atol(argv[++i]);
		else if (!strcmp(argv[i], "-c") && i + 1 < argc)
			code = atoi(argv[++i]);
		group = group || !strcmp(argv[i], "--group");
		before = before || !strcmp(argv[i], "--handlers");
		after = after || !strcmp(argv[i], "--handlers-late");
	}
	if (!strcmp(mode, "nothing"))
		return code;
	if (!strcmp(mode, "daemon"))
		become_daemon();
	if (before)
		install();
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&cell, sizeof *cell));
	CHECK(cudaMemset(cell, 0, sizeof *cell));
	if (after)
		install();
	return end();
}
