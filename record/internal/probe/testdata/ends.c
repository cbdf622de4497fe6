/*
 * A program that ends in the way that its argument names. It prints the address of
 * the exit signal's handler, waits for a line, and ends.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern volatile int asked, asked_thread;
void hand_over(int), fatal(int);

static char *none[] = {NULL}, *name[] = {"again", "return", NULL};
static sigjmp_buf back;

static void install(int number, void (*handler)(int), int flags, int all)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	if (all)
		sigfillset(&action.sa_mask);
	sigaction(number, &action, NULL);
}

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		abort();
}

static void stack_of(size_t size)
{
	stack_t stack = {.ss_sp = malloc(size), .ss_size = size};

	if (sigaltstack(&stack, NULL))
		say("no stack\n");
}

static void own(int number)
{
	say("own\n");
	syscall(SYS_exit_group, 100 + number);
}

static void goes_on(int number)
{
	(void)number;
}

static void jumps(int number)
{
	(void)number;
	siglongjmp(back, 1);
}

static void fault(void)
{
	*(volatile int *)8 = 1;
}

static void *ending_thread(void *unused)
{
	(void)unused;
	_exit(asked == 0 ? 7 : 8);
}

static void child(int spawned)
{
	pid_t pid;

	if (spawned) {
		char *arguments[] = {"true", NULL};
		if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, none))
			say("no spawn\n");
	} else if ((pid = fork()) == 0) {
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void faults(int n)
{
	for (volatile int i = 0; i < n; i++)
		if (!sigsetjmp(back, 1))
			fault();
}

static int is(const char *mode, const char *what)
{
	return !strcmp(mode, what);
}

static void with_handlers(const char *mode)
{
	if (is(mode, "term")) {
		install(SIGTERM, own, 0, 0);
		raise(SIGTERM);
	} else if (is(mode, "segv")) {
		install(SIGSEGV, own, 0, 0);
		fault();
	} else if (is(mode, "segv-stack")) {
		stack_of(256 << 10);
		install(SIGSEGV, own, SA_ONSTACK, 0);
		fault();
	} else if (is(mode, "segv-small-stack")) {
		stack_of(getauxval(AT_MINSIGSTKSZ) + 2048);
		install(SIGSEGV, own, SA_ONSTACK, 0);
		fault();
	} else if (is(mode, "term-masked")) {
		install(SIGTERM, own, 0, 1);
		raise(SIGTERM);
	} else if (is(mode, "term-default")) {
		raise(SIGTERM);
	} else if (is(mode, "segv-library")) {
		install(SIGSEGV, fatal, 0, 0);
		fault();
	} else if (is(mode, "faults")) {
		install(SIGSEGV, jumps, SA_NODEFER, 0);
		faults(2000);
	} else if (is(mode, "pipes")) {
		install(SIGPIPE, goes_on, 0, 0);
		raise(SIGPIPE);
	}
}

static void with_exits(const char *mode)
{
	sigset_t urgent;
	pthread_t thread;

	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	if (is(mode, "_exit"))
		_exit(3);
	if (is(mode, "quick-exit"))
		quick_exit(4);
	if (is(mode, "reset")) {
		signal(SIGURG, SIG_DFL);
		_exit(3);
	}
	if (is(mode, "replaced")) {
		signal(SIGURG, goes_on);
		_exit(3);
	}
	if (is(mode, "blocked")) {
		sigprocmask(SIG_BLOCK, &urgent, NULL);
		_exit(3);
	}
	if (is(mode, "thread")) {
		pthread_create(&thread, NULL, ending_thread, NULL);
		pthread_join(thread, NULL);
	}
	if (is(mode, "fork"))
		child(0);
	if (is(mode, "spawn"))
		child(1);
	if (is(mode, "system-call"))
		syscall(SYS_exit_group, 5);
}

static void with_exec(const char *mode, char *self)
{
	if (is(mode, "exec")) {
		execve(self, name, none);
	} else if (is(mode, "exec-fails")) {
		execve("/nowhere", none, none);
		execv("/nowhere", none);
		say("lives\n");
		execve(self, name, none);
	} else if (is(mode, "fexecve")) {
		fexecve(open(self, O_RDONLY), name, none);
	}
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc < 2)
		return 1;
	install(SIGURG, hand_over, SA_RESTART, 0);
	printf("%p\n", (void *)hand_over);
	fflush(stdout);
	if (is(argv[0], "again"))
		return 6;
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	with_handlers(argv[1]);
	with_exits(argv[1]);
	with_exec(argv[1], "/proc/self/exe");
	if (is(argv[1], "hang"))
		pause();
	return 9;
}
