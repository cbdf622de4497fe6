/*
 * Calls CUDA on some threads until the first of them ends the program by SIGKILL, just after its last
 * call, or with --fault in a copy from memory that is not there; with --fork it forks before. A file tells, even then, which threads
 * were in a call: a thread's ID, and 1 in a call or 0.
 */
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

#define THREADS 64

static struct {
	_Atomic uint32_t tid, inside;
} *told;
static long calls;
static bool fault, forks;

/* The child ends when its only thread does. */
static void fork_child(void)
{
	pid_t child = fork();
	if (child == 0)
		pthread_exit(NULL);
	waitpid(child, NULL, 0);
}

static void end(struct work *w)
{
	if (forks)
		fork_child();
	if (fault) {
		atomic_store(&told[0].inside, 1);
		CHECK(cudaMemcpy(w->cell, (void *)16, sizeof *w->cell, cudaMemcpyHostToDevice));
	}
	kill(getpid(), SIGKILL);
}

static void *run(void *index)
{
	struct work w;
	long i = (long)(intptr_t)index;
	atomic_store(&told[i].inside, 1);
	atomic_store(&told[i].tid, (uint32_t)gettid());
	work_begin(&w);
	for (long n = 0; i > 0 || n < calls; n++) {
		atomic_store(&told[i].inside, 1);
		if (n % 8 == 7)
			CHECK(cudaStreamSynchronize(w.stream));
		else
			work_launch(&w, 1);
		atomic_store(&told[i].inside, 0);
	}
	end(&w);
	return NULL;
}

int main(int argc, char **argv)
{
	long count = option_number(argc, argv, "-t", 1, 1);
	pthread_t thread;
	int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
	calls = option_number(argc, argv, "-n", 1000, 1);
	fault = option_flag(argc, argv, "--fault");
	forks = option_flag(argc, argv, "--fork");
	if (fd < 0 || count > THREADS || ftruncate(fd, THREADS * sizeof *told) != 0) {
		fputs("usage: inside FILE [-t THREADS] [-n CALLS] [--fork] [--fault]\n", stderr);
		return 2;
	}
	told = mmap(NULL, THREADS * sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (told == MAP_FAILED)
		return 1;
	for (long i = 1; i < count; i++)
		if (pthread_create(&thread, NULL, run, (void *)(intptr_t)i))
			return 1;
	run(NULL);
	return 0;
}
