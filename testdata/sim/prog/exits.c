/* Launches kernels and ends in the way that its first argument names, without waiting for
 * the last of them. Prints the number of launches before the last launch. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"

#define WORK_KERNEL "_Z4lastPi" /* void last(int *) */
#include "work.h"

static struct {
	struct work work;
	long launches;
	int code;
	bool group; /* signals go to the whole process group */
} own;

/* Launches all kernels but the last, prints the counts, and launches the last. */
static void launch_to_the_end(void)
{
	struct counts total = own.work.issued;
	total.kernels = own.launches;
	work_launch(&own.work, own.launches - own.work.issued.kernels - 1);
	counts_print("counts", total);
	work_launch(&own.work, 1);
}

static void die_by(int signal)
{
	launch_to_the_end();
	kill(own.group ? 0 : getpid(), signal);
	for (;;)
		pause();
}

static int by_return(void)
{
	launch_to_the_end();
	return own.code;
}

static int by_exit(void)
{
	launch_to_the_end();
	exit(own.code);
}

static int by__exit(void)
{
	launch_to_the_end();
	_exit(own.code);
}

static int by_quick_exit(void)
{
	launch_to_the_end();
	quick_exit(own.code);
}

static int by_abort(void)
{
	launch_to_the_end();
	abort();
}

static int by_segv(void)
{
	static volatile int *volatile nowhere;
	launch_to_the_end();
	*nowhere = 1;
	return 0;
}

static int deeper(const volatile int *above)
{
	volatile int here[1024] = {above[0] + 1};
	return above[0] < 0 ? 0 : deeper(here) + here[1]; /* a count that never ends */
}

static int by_overflow(void)
{
	volatile int first = 0;
	launch_to_the_end();
	return deeper(&first);
}

/* The program has a stack for signals, as Go's and Java's have. */
static int by_overflow_with_stack(void)
{
	stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
	if (!stack.ss_sp || sigaltstack(&stack, NULL))
		return 1;
	return by_overflow();
}

static int by_int(void)
{
	die_by(SIGINT);
	return 0;
}

static int by_term(void)
{
	die_by(SIGTERM);
	return 0;
}

static int by_hup(void)
{
	die_by(SIGHUP);
	return 0;
}

static int by_kill(void)
{
	die_by(SIGKILL);
	return 0;
}

/* An uncaught "throw 1", as a C++ compiler translates it. */
static int by_exception(void)
{
	void *(*allocate)(size_t) = NULL;
	void (*throw)(void *, void *, void *) = NULL;
	void *lib = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL), *type = lib ? dlsym(lib, "_ZTIi") : NULL;
	if (lib) {
		*(void **)&allocate = dlsym(lib, "__cxa_allocate_exception");
		*(void **)&throw = dlsym(lib, "__cxa_throw");
	}
	if (!allocate || !throw || !type) {
		fprintf(stderr, "exits: no C++ library to throw with: %s\n", dlerror());
		return 1;
	}
	launch_to_the_end();
	int *thrown = allocate(sizeof *thrown);
	*thrown = 1;
	throw(thrown, type, NULL);
	return 0;
}

static int by_exec(void)
{
	char code[16];
	snprintf(code, sizeof code, "%d", own.code);
	launch_to_the_end();
	execl("/proc/self/exe", "exits", "nothing", "-c", code, (char *)NULL);
	return 1;
}

static void *half(void *unused)
{
	(void)unused;
	struct work w;
	work_begin(&w);
	work_launch(&w, own.launches / 2);
	own.work.issued = counts_add(own.work.issued, w.issued);
	pthread_exit(NULL);
}

static void *rest(void *first)
{
	pthread_join(*(pthread_t *)first, NULL);
	launch_to_the_end();
	exit(own.code);
}

/* One thread leaves while the others run, another ends the program. */
static int by_thread_exit(void)
{
	pthread_t first, second;
	if (pthread_create(&first, NULL, half, NULL) || pthread_create(&second, NULL, rest, &first))
		return 1;
	pthread_join(second, NULL);
	return 1;
}

static int by_fork_child(void)
{
	int status = 0;
	work_launch(&own.work, own.launches / 2);
	fflush(NULL);
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	waitpid(child, &status, 0);
	launch_to_the_end();
	return status ? 1 : own.code;
}

static int by_device_reset(void)
{
	launch_to_the_end();
	CHECK(cudaDeviceReset());
	return own.code;
}

/* Its last kernel runs for an hour. */
static int by_hang(void)
{
	launch_to_the_end();
	CHECK(cudaStreamSynchronize(own.work.stream));
	return own.code;
}

static const struct {
	const char *name;
	int (*end)(void);
} modes[] = {
	{"return", by_return}, {"exit", by_exit}, {"_exit", by__exit}, {"quick-exit", by_quick_exit},
	{"abort", by_abort}, {"segv", by_segv}, {"overflow", by_overflow},
	{"overflow-with-stack", by_overflow_with_stack},
	{"int", by_int}, {"term", by_term}, {"hup", by_hup}, {"kill", by_kill},
	{"exception", by_exception}, {"exec", by_exec}, {"thread-exit", by_thread_exit}, {"fork-child", by_fork_child},
	{"daemon", by_return}, {"device-reset", by_device_reset}, {"hang", by_hang},
};

/* Runs on in a new session after the first process has ended. */
static void become_daemon(void)
{
	pid_t parent = getpid(), child = fork();
	if (child < 0)
		exit(1);
	if (child > 0)
		_exit(0);
	setsid();
	while (getppid() == parent)
		usleep(1000);
}

/* The program's own handlers, which exit with 100 plus the signal's number. */
static void handled(int signal)
{
	static const char text[] = "handled\n";
	if (write(STDOUT_FILENO, text, sizeof text - 1) < 0)
		_exit(1);
	_exit(100 + signal);
}

static void install(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGSEGV, SIGABRT};
	struct sigaction action = {.sa_handler = handled};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &action, NULL);
}

static int usage(void)
{
	fputs("usage: exits MODE [-n KERNELS] [-c CODE] [--group] [--handlers | --handlers-late]\nMODE:", stderr);
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		fprintf(stderr, " %s", modes[i].name);
	fputs("\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	size_t i = 0;
	own.launches = option_number(argc, argv, "-n", 1000, 2);
	own.code = (int)option_number(argc, argv, "-c", 0, 0);
	own.group = option_flag(argc, argv, "--group");
	if (!strcmp(mode, "nothing"))
		return own.code;
	while (i < sizeof modes / sizeof *modes && strcmp(modes[i].name, mode))
		i++;
	if (i == sizeof modes / sizeof *modes)
		return usage();
	if (!strcmp(mode, "daemon"))
		become_daemon();
	if (option_flag(argc, argv, "--handlers"))
		install();
	if (!strcmp(mode, "hang")) {
		char number[24];
		snprintf(number, sizeof number, "%ld", own.launches);
		setenv("CUDASIM_HANG_AFTER", number, 1);
	}
	work_begin(&own.work);
	if (option_flag(argc, argv, "--handlers-late"))
		install();
	return modes[i].end();
}
