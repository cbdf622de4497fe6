/*
 * A program whose threads do what a stop could disturb: calls of CUDA without pause, system calls that wait, signals,
 * timers, fork, vfork, posix_spawn. Until standard input ends; each byte on it is answered by the number of launches so
 * far. In the end it prints what went wrong, and ends with exit code 9. Arguments: term, ends by a handler of SIGTERM with
 * exit code 5; vfork, has a thread whose first child runs another program when the launches are asked for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void launch(void);

static atomic_bool over, asked;
static atomic_bool vforked; /* a child that shares the memory runs */
static atomic_long launches, wrong, alarms, children;
static __thread volatile long own; /* signals to this thread */
static int quiet[2], bytes[2];     /* pipes: nobody writes to the first */
static int silent[2];              /* sockets: nobody sends */

static const struct timespec ms = {.tv_nsec = 1000000};

static void fault(const char *what)
{
	if (wrong++ == 0)
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
}

static void on_own(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	own += info->si_code <= 0; /* others are breakpoints of a recorder that was killed */
}

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static void on_child(int sig)
{
	(void)sig;
	children++;
}

static void on_term(int sig)
{
	(void)sig;
	_exit(write(1, "term\n", 5) == 5 ? 5 : 6);
}

static void launches_on(void)
{
	launch();
	launches++;
}

static void sleeps(void)
{
	if (nanosleep(&ms, NULL) != 0)
		fault("nanosleep");
}

static void polls(void)
{
	struct pollfd p = {.fd = quiet[0], .events = POLLIN};
	if (poll(&p, 1, 1) != 0)
		fault("poll");
}

static void selects(void)
{
	fd_set set;
	struct timeval t = {.tv_usec = 1000};
	FD_ZERO(&set);
	FD_SET(quiet[0], &set);
	if (select(quiet[0] + 1, &set, NULL, NULL, &t) != 0)
		fault("select");
}

static void waits(void)
{
	static uint32_t word;
	if (syscall(SYS_futex, &word, FUTEX_WAIT, 0, &ms, NULL, 0) != -1 || errno != ETIMEDOUT)
		fault("futex");
}

static void reads(void)
{
	char b[100];
	size_t got = 0;
	while (got < sizeof b) {
		ssize_t n = read(bytes[0], b, sizeof b - got);
		if (n <= 0 && over)
			return;
		if (n <= 0)
			return fault("read");
		got += (size_t)n;
	}
}

static void receives(void)
{
	char b;
	struct iovec to = {&b, 1};
	struct mmsghdr m = {.msg_hdr = {.msg_iov = &to, .msg_iovlen = 1}};
	if (recvmmsg(silent[0], &m, 1, 0, NULL) != 1 || !over)
		fault("recvmmsg");
}

static void writes(void)
{
	char b[100] = {0};
	if (write(bytes[1], b, sizeof b) != sizeof b)
		fault("write");
	nanosleep(&ms, NULL);
}

static void raises(void)
{
	static const int signals[] = {SIGUSR1, SIGTRAP, SIGUSR1};
	for (int i = 0; i < 3; i++) {
		long before = own;
		pthread_kill(pthread_self(), signals[i]);
		if (own != before + 1)
			fault("signal");
	}
	launch();
}

static void await(pid_t child, int code)
{
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != code)
		fault("child");
}

static void forks(void)
{
	pid_t child = fork();
	if (child == 0) {
		launch();
		_exit(7);
	}
	await(child, 7);
	nanosleep(&ms, NULL);
}

static char *const nothing[] = {"true", NULL};

static void spawns(void)
{
	pid_t child = -1;
	if (posix_spawn(&child, "/bin/true", NULL, NULL, nothing, NULL) != 0)
		fault("posix_spawn");
	await(child, 0);
	nanosleep(&ms, NULL);
}

static void vforks(void)
{
	pid_t child = vfork();
	if (child == 0) {
		vforked = true;
		while (!asked)
			usleep(1000);
		execv("/bin/true", nothing);
		_exit(1);
	}
	await(child, 0);
}

static void *run(void *arg)
{
	void (*step)(void);
	memcpy(&step, &arg, sizeof step);
	while (!over)
		step();
	return NULL;
}

static pthread_t start(void (*step)(void))
{
	pthread_t t;
	void *arg;
	memcpy(&arg, &step, sizeof arg);
	if (pthread_create(&t, NULL, run, arg) != 0)
		exit(1);
	return t;
}

static void handle(int sig, void (*handler)(int))
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
	sigaction(sig, &a, NULL);
}

int main(int argc, char **argv)
{
	static void (*const all[])(void) = {sleeps, polls, selects, waits, receives, writes, raises, forks, spawns};
	enum { N = sizeof all / sizeof *all };
	const char *mode = argc > 1 ? argv[1] : "";
	struct sigaction raised = {.sa_sigaction = on_own, .sa_flags = SA_SIGINFO};
	sigaction(SIGUSR1, &raised, NULL);
	sigaction(SIGTRAP, &raised, NULL);
	handle(SIGALRM, on_alarm);
	handle(SIGCHLD, on_child);
	if (strcmp(mode, "term") == 0)
		handle(SIGTERM, on_term);
	if (pipe(quiet) != 0 || pipe(bytes) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, silent) != 0)
		return 1;
	pthread_t threads[N], launcher = start(launches_on), reader, slow = 0;
	sigset_t set; /* signals with handlers come to threads that launch: other calls may fail by them also without a stop */
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaddset(&set, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	reader = start(reads);
	for (int i = 0; i < N; i++)
		threads[i] = start(all[i]);
	if (strcmp(mode, "vfork") == 0)
		for (slow = start(vforks); !vforked;)
			usleep(1000);
	struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &every, NULL);
	puts("ready");
	fflush(stdout);
	for (char c; read(0, &c, 1) == 1;) {
		asked = true;
		printf("%ld\n", (long)launches);
		fflush(stdout);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	over = asked = true;
	shutdown(silent[0], SHUT_RDWR);
	for (int i = 0; i < N; i++)
		pthread_join(threads[i], NULL);
	if (strcmp(mode, "vfork") == 0)
		pthread_join(slow, NULL);
	close(bytes[1]); /* which ends the reader */
	pthread_join(reader, NULL);
	pthread_join(launcher, NULL);
	printf("wrong %ld, alarms %d, children %d\n", (long)wrong, alarms > 0, children > 0);
	return 9;
}
