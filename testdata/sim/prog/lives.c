/* Lives at random, by a seed: its threads launch kernels, and at some moment one of them ends the process in some way, runs this
 * program again by exec, or starts it as a child, which it may kill. What each program has done is in a file that all of them map.
 * usage: lives -s SEED -d DEPTH -r FILE */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"
#include "work.h"

#define PROGRAMS 256
#define THREADS 3

/* How a program means to end. cmd/cudatrace/lives_test.go knows these, and struct life. */
enum { BY_EXIT = 1, BY__EXIT, BY_EXEC, BY_TERM, BY_SEGV, BY_KILL, WAYS };

struct life {
	_Atomic uint32_t pid, initialised, how;
	_Atomic uint32_t killed; /* PID of the child that it has killed at any moment */
	_Atomic uint64_t begun, returned; /* launches */
};

static struct {
	_Atomic uint32_t programs;
	uint32_t unused[15];
	struct life lives[PROGRAMS];
} *file;

static struct {
	uint64_t random;
	long depth;
	const char *path;
	char *program;
	struct life *life;
	_Atomic int quiet, parked;
	int threads;
	pid_t child;
} own;

static uint64_t random_number(uint64_t below)
{
	own.random ^= own.random << 13;
	own.random ^= own.random >> 7;
	own.random ^= own.random << 17;
	return own.random % below;
}

static void arguments(char **args, char *seed, char *depth)
{
	sprintf(seed, "%llu", (unsigned long long)random_number(1u << 29) + 1);
	sprintf(depth, "%ld", own.depth - 1);
	char *all[] = {own.program, (char *)(uintptr_t)"-s", seed, (char *)(uintptr_t)"-d", depth, (char *)(uintptr_t)"-r", (char *)(uintptr_t)own.path, NULL};
	memcpy(args, all, sizeof all);
}

static void start_child(void)
{
	char seed[24], depth[24], *args[8];
	arguments(args, seed, depth);
	own.child = fork();
	if (own.child == 0) {
		if (own.random % 4) /* else it uses no CUDA */
			execv("/proc/self/exe", args);
		_exit(0);
	}
}

static void end_child(void)
{
	if (own.child <= 0)
		return;
	if (random_number(2)) {
		usleep((useconds_t)random_number(60000));
		own.life->killed = (uint32_t)own.child;
		kill(own.child, SIGKILL);
	}
	waitpid(own.child, NULL, 0);
}

/* Waits until the other threads make no more calls. */
static void quieten(void)
{
	own.quiet = 1;
	while (own.parked < own.threads - 1)
		usleep(100);
}

static void end(int how)
{
	char seed[24], depth[24], *args[8];
	end_child();
	own.life->how = (uint32_t)how;
	switch (how) {
	case BY_EXIT:
		quieten(); /* CUDA goes while the exit handlers run */
		exit(3);
	case BY__EXIT:
		_exit(4);
	case BY_EXEC:
		arguments(args, seed, depth);
		execv("/proc/self/exe", args);
		_exit(127);
	default:
		kill(getpid(), how == BY_TERM ? SIGTERM : how == BY_SEGV ? SIGSEGV : SIGKILL);
		for (;;)
			pause();
	}
}

static void launch(struct work *w)
{
	own.life->begun++;
	work_launch(w, 1);
	own.life->returned++;
}

/* The thread whose argument is not NULL decides. */
static void *live(void *decides)
{
	struct work w;
	uint64_t n = decides ? random_number(200) : 400;
	work_begin(&w);
	for (uint64_t i = 0; i < n && !(own.quiet && !decides); i++)
		launch(&w);
	if (!decides) {
		own.parked++;
		for (;;)
			pause();
	}
	if (own.depth > 0 && random_number(2)) {
		start_child();
		for (n = random_number(100); n; n--)
			launch(&w);
	}
	int how = 1 + (int)random_number(WAYS - 1);
	end(how == BY_EXEC && own.depth == 0 ? BY_EXIT : how);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	own.random = (uint64_t)option_number(argc, argv, "-s", 1, 1) * 0x9e3779b97f4a7c15u;
	own.depth = option_number(argc, argv, "-d", 3, 0);
	own.program = argv[0];
	own.path = option_text(argc, argv, "-r", "");
	int fd = open(own.path, O_RDWR | O_CLOEXEC);
	file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || file == MAP_FAILED) {
		perror("the file of -r");
		return 2;
	}
	uint32_t number = file->programs++;
	if (number >= PROGRAMS)
		return 2;
	own.life = &file->lives[number];
	own.life->pid = (uint32_t)getpid();
	CHECK(cudaFree(NULL));
	own.life->initialised = 1;
	own.threads = 1 + (int)random_number(THREADS);
	int first = (int)random_number(2); /* whether the first thread decides */
	for (int i = 1; i < own.threads; i++)
		if (pthread_create(&thread, NULL, live, !first && i == 1 ? own.life : NULL))
			return 2;
	live(first || own.threads == 1 ? own.life : NULL);
}
