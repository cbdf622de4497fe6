/*
 * Runs operators of the simulated PyTorch on many threads, and forks. Writes where PyTorch's functions are to the file of
 * the first argument. Operators still run while it exits, which takes a while: PyTorch is gone then. Ends with 7. With
 * another argument it does not fork: children of a program with threads hang in gcc 12's ThreadSanitizer, in its malloc.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define TURNS 300

int cudaMalloc(void **, size_t), cudaMemset(void *, int, size_t);

static const char *const names[] = {
	"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE", "_ZN2at15disableCallbackEm",
	"_ZN2at16reenableCallbackEm", "_ZNK2at14RecordFunction4nameEv", "_ZN2at14RecordFunction15currentThreadIdEv",
	"_ZN2at15sequence_number4peekEv", "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE",
};
static void (*operate)(const char *name, bool makes_node, void (*run)(void *), void *arg);
static void (*range)(const char *name, void (*run)(void *), void *arg);
static unsigned (*observed)(void);
static void *memory;
static pthread_key_t key;

static void launch(void *arg)
{
	(void)arg;
	if (cudaMemset(memory, 0, 64))
		abort();
}

static void deep(void *arg)
{
	int *left = arg;
	if (--*left > 0)
		operate("aten::deep", false, deep, left);
	else
		launch(NULL);
}

static void turn(void *arg)
{
	char name[48];
	int levels = 100; /* more than are kept */
	snprintf(name, sizeof name, "aten::number_%d", *(int *)arg);
	operate(name, true, launch, NULL);
	range("a range", launch, NULL);
	operate("aten::deep", false, deep, &levels);
}

/* Runs before or after the library's own destructor. */
static void at_thread_end(void *turns)
{
	turn(turns);
}

static void *run(void *arg)
{
	static atomic_int turns;
	int last = 0;
	for (int i = 0; i < TURNS || arg; i++) {
		last = atomic_fetch_add(&turns, 1);
		operate("outer", false, turn, &last);
	}
	static int ended;
	pthread_setspecific(key, &ended);
	return NULL;
}

static void forked(void *arg)
{
	range("a range of the child", NULL, arg);
}

static bool fork_some(void)
{
	int status;
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		if (child == 0) {
			operate("aten::child", true, forked, NULL);
			exit(3);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
			return false;
	}
	return true;
}

static void slow_exit(void)
{
	usleep(200000);
}

static void find(void *f, void *torch, const char *name)
{
	void *found = dlsym(torch, name);
	if (!found)
		abort();
	memcpy(f, &found, sizeof found);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS], endless;
	int failed = argc < 2 ? 1 : cudaMalloc(&memory, 64);
	if (failed || pthread_key_create(&key, at_thread_end) || atexit(slow_exit))
		return 91;
	void *torch = dlopen("libtorch_cpu.so", RTLD_NOW);
	FILE *f = torch ? fopen(argv[1], "w") : NULL;
	if (!f)
		return 92;
	find(&operate, torch, "sim_torch_operate");
	find(&range, torch, "sim_torch_range");
	find(&observed, torch, "sim_torch_observed");
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		fprintf(f, "%s %lu\n", names[i], (unsigned long)(uintptr_t)dlsym(torch, names[i]));
	fprintf(f, "end 0\n");
	if (fclose(f))
		return 93;
	for (int i = 0; i < 20000 && observed() == 0; i++)
		usleep(1000);
	if (observed() == 0)
		return 94;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, NULL))
			return 95;
	bool forked = argc > 2 || fork_some();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	if (!forked || pthread_create(&endless, NULL, run, &key))
		return 96;
	usleep(20000);
	return 7;
}
