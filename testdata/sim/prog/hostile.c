/* A program that makes itself hard to record. Its arguments are actions, each NAME or NAME=VALUE, which it
 * takes in turn; the table at the end has them all. "work" launches kernels, "end" prints how many. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../record/internal/cupti/inject/wire.h"
#include "options.h"
#include "sandbox.h"

#define WORK_KERNEL "_Z7hostilePi" /* void hostile(int *) */
#include "work.h"

#define LAUNCHES 200
#define DESCRIPTORS 256

static struct {
	struct work work;
	bool begun;
	char **rest; /* the actions that follow */
	struct counts printed;
} own;

static void fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	fflush(stdout);
}

static void launch(const char *value)
{
	if (!own.begun)
		work_begin(&own.work);
	own.begun = true;
	work_launch(&own.work, value ? atol(value) : LAUNCHES);
}

static void work(const char *value)
{
	launch(value);
	CHECK(cudaStreamSynchronize(own.work.stream));
}

/* Prints what was launched since the last time. */
static void print(void)
{
	struct counts all = own.work.issued, last = own.printed;
	counts_print("counts", (struct counts){all.kernels - last.kernels, all.copies - last.copies, all.sets - last.sets});
	own.printed = all;
}

/* Ends as value says: exit (none), _exit, quick, abort, segv, or by a signal's number. */
static void end(const char *value)
{
	static volatile int *volatile nowhere;
	print();
	if (!value)
		exit(7);
	if (!strcmp(value, "_exit"))
		_exit(7);
	if (!strcmp(value, "quick"))
		quick_exit(7);
	if (!strcmp(value, "abort"))
		abort();
	if (!strcmp(value, "segv"))
		*nowhere = 1;
	kill(getpid(), atoi(value));
	for (;;)
		pause();
}

static void close_all(const char *value)
{
	for (int fd = value ? atoi(value) : 3; fd < DESCRIPTORS; fd++)
		close(fd);
}

/* Opens files under the numbers that it has closed. Nobody may write to them. */
static void reuse(const char *value)
{
	struct stat s;
	int fd;
	(void)value;
	close_all(NULL);
	while ((fd = open("reused", O_RDWR | O_CREAT | O_APPEND, 0600)) >= 0 && fd < 64)
		;
	work(NULL);
	if (stat("reused", &s) == 0)
		printf("reused: %ld bytes\n", (long)s.st_size);
	unlink("reused");
}

static void overwrite(const char *value)
{
	(void)value;
	for (int fd = 3; fd < 64; fd++)
		dup2(STDERR_FILENO, fd);
}

static void fill(const char *value)
{
	(void)value;
	while (open("/dev/null", O_RDONLY) >= 0)
		;
}

static void each_descriptor(void (*f)(int))
{
	for (int fd = 3; fd < DESCRIPTORS; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			f(fd);
}

static void shut(int fd)
{
	shutdown(fd, SHUT_RDWR);
}

static void shut_all(const char *value)
{
	(void)value;
	each_descriptor(shut);
}

static void make_blocking(int fd)
{
	fcntl(fd, F_SETFL, 0);
}

static void block_all(const char *value)
{
	(void)value;
	each_descriptor(make_blocking);
}

static void garble(int fd)
{
	static const char nonsense[] = "\xff\xff\xff\xff nonsense \xff\xff\xff\xff";
	send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void garble_all(const char *value)
{
	(void)value;
	each_descriptor(garble);
}

static const struct {
	const char *name;
	int resource;
} limits[] = {
	{"as", RLIMIT_AS}, {"core", RLIMIT_CORE}, {"data", RLIMIT_DATA}, {"fsize", RLIMIT_FSIZE},
	{"memlock", RLIMIT_MEMLOCK}, {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC}, {"sigpending", RLIMIT_SIGPENDING},
	{"stack", RLIMIT_STACK}, {"cpu", RLIMIT_CPU},
};

/* limit=NAME:NUMBER */
static void limit(const char *value)
{
	const char *number = strchr(value, ':') + 1;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct rlimit l = {(rlim_t)atol(number), (rlim_t)atol(number)};
		if (!strncmp(limits[i].name, value, (size_t)(number - value) - 1) && setrlimit(limits[i].resource, &l))
			fail("setrlimit");
	}
}

/* Signals that may have a handler in a program that is recorded, or in any that is linked with glibc's threads. */
static bool may_be_caught(int sig)
{
	return strchr("\1\2\3\4\5\6\7\10\12\13\14\15\16\17\20\30\31\32\33\35\36\37\27\40\41", sig) != NULL;
}

/* The first thread's line of a name. */
static bool status_line(const char *name, char *line, int size)
{
	char path[64];
	bool found = false;
	snprintf(path, sizeof path, "/proc/%d/task/%d/status", getpid(), getpid());
	FILE *f = fopen(path, "r");
	while (f && !found && fgets(line, size, f))
		found = !strncmp(line, name, strlen(name)) && line[strlen(name)] == ':';
	if (f)
		fclose(f);
	return found;
}

/* Prints what /proc tells of signals and rights of the first thread, and the limits. A signal may be on its way. */
static void status(const char *value)
{
	static const char *const names[] = {"SigPnd", "ShdPnd", "SigBlk", "SigIgn", "NoNewPrivs", "Seccomp", "Seccomp_filters", "CapEff"};
	char line[128];
	unsigned long queued = 1, most = 0;
	uint64_t caught = 0;
	struct rlimit l;
	(void)value;
	for (int i = 0; i < 1000 && queued; i++) {
		if (!status_line("SigQ", line, sizeof line) || sscanf(line, "SigQ: %lu/%lu", &queued, &most) != 2)
			fail("SigQ");
		usleep(queued ? 10000 : 0);
	}
	printf("queued %lu of %lu\n", queued, most);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (status_line(names[i], line, sizeof line))
			fputs(line, stdout);
	if (!status_line("SigCgt", line, sizeof line) || sscanf(line, "SigCgt: %" SCNx64, &caught) != 1)
		fail("SigCgt");
	for (int sig = 1; sig < 65; sig++)
		if (caught >> (sig - 1) & 1 && !may_be_caught(sig))
			printf("caught: %d\n", sig);
	for (int i = 0; i < RLIM_NLIMITS; i++)
		if (getrlimit(i, &l) == 0)
			printf("limit %d: %llu %llu\n", i, (unsigned long long)l.rlim_cur, (unsigned long long)l.rlim_max);
	fflush(stdout);
}

static void await_first_thread(void *unused)
{
	char line[128];
	(void)unused;
	for (int asleep = 0; asleep < 10; usleep(1000))
		asleep = status_line("State", line, sizeof line) && strchr(line, 'S') && strstr(line, "sleeping") ? asleep + 1 : 0;
	status(NULL);
}

/* The same, while the first thread waits for work. */
static void wait_status(const char *value)
{
	launch(value);
	CHECK(cudaLaunchHostFunc(own.work.stream, await_first_thread, NULL));
	CHECK(cudaStreamSynchronize(own.work.stream));
}

/* unshare=FLAGS, a number */
static void unshare_all(const char *value)
{
	if (unshare((int)strtol(value, NULL, 0)))
		fail("unshare");
}

static int status_of(pid_t child)
{
	int status = -1;
	if (child < 0 || waitpid(child, &status, 0) != child)
		fail("waitpid");
	return status;
}

/* Children that end in some way: fork=exit, _exit, crash, strict, exec, work, status or again (the latter in another program) */
static void fork_child(const char *value)
{
	static volatile int *volatile nowhere;
	fflush(NULL);
	pid_t child = !strcmp(value, "raw") ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	if (child == 0) {
		if (!strcmp(value, "exit"))
			exit(3);
		if (!strcmp(value, "crash"))
			*nowhere = 1;
		if (!strcmp(value, "strict") && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0)
			syscall(SYS_exit, 3);
		if (!strcmp(value, "exec"))
			execl("/bin/true", "true", (char *)NULL);
		if (!strcmp(value, "status"))
			status(NULL);
		if (!strcmp(value, "again"))
			execl("/proc/self/exe", "hostile", "status", (char *)NULL);
		if (!strcmp(value, "work"))
			_exit(cudaLaunchKernel(NULL, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL) ? 3 : 0);
		_exit(3);
	}
	printf("child: %#x\n", status_of(child));
}

static void fork_exec(const char *value)
{
	(void)value;
	fflush(NULL);
	pid_t child = vfork();
	if (child == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	printf("child: %#x\n", status_of(child));
}

/* The rest of the actions in a daemon. The first process ends. */
static void daemonize(const char *value)
{
	(void)value;
	fflush(NULL);
	pid_t child = fork();
	if (child > 0)
		_exit(0);
	setsid();
}

/* The rest of the actions in another program: exec, exec=clean without an environment. */
static void exec_rest(const char *value)
{
	char *none[] = {NULL};
	if (own.begun)
		print();
	execve("/proc/self/exe", own.rest, value ? none : environ);
	fail("execve");
}

/* The rest of the actions in a child that is traced: traced=1 stops at each system call, too. Prints which signals stop it; one that
 * comes twice in a row, once. */
static void traced(const char *value)
{
	int status, request = value ? PTRACE_SYSCALL : PTRACE_CONT, before = 0;
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
			raise(SIGSTOP);
		return;
	}
	for (bool first = true; waitpid(child, &status, 0) == child && WIFSTOPPED(status); first = false) {
		int sig = WSTOPSIG(status) == SIGTRAP || first ? 0 : WSTOPSIG(status);
		if (sig && sig != before)
			printf("stopped by %d\n", sig);
		before = sig ? sig : before;
		ptrace((enum __ptrace_request)request, child, NULL, (void *)(uintptr_t)sig);
	}
	fflush(stdout);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* user=UID, with the group of that number and no others */
static void become(const char *value)
{
	uid_t id = (uid_t)atoi(value);
	if (setresgid(id, id, id) || setresuid(id, id, id))
		fail("setresuid");
}

/* prctl=OPTION:VALUE */
static void set_option(const char *value)
{
	if (prctl(atoi(value), strtoul(strchr(value, ':') + 1, NULL, 0), 0, 0, 0))
		fail("prctl");
}

static void block_signals(const char *value)
{
	sigset_t all;
	(void)value;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
}

static void ignore_signals(const char *value)
{
	(void)value;
	for (int sig = 1; sig < 65; sig++)
		if (sig != SIGCHLD)
			signal(sig, SIG_IGN);
}

static volatile int handled;

static void nothing(int sig)
{
	(void)sig;
	handled++;
}

/* A timer's signals a thousand times a second, which end system calls. */
static void storm(const char *value)
{
	struct sigaction action = {.sa_handler = nothing};
	struct itimerval often = {{0, 1000}, {0, 1000}};
	(void)value;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

static void calm(const char *value)
{
	(void)value;
	setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
}

static void handle(const char *value)
{
	signal(atoi(value), nothing);
}

static sigset_t block_one(int sig)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return set;
}

/* Sends itself a signal, which has a handler. */
static void raise_handled(const char *value)
{
	kill(getpid(), atoi(value));
	printf("handled %d\n", handled);
}

/* Sends itself a signal and waits for it. */
static void wait_for_signal(const char *value)
{
	siginfo_t info = {0};
	sigset_t set = block_one(atoi(value));
	kill(getpid(), atoi(value));
	int sig = sigwaitinfo(&set, &info);
	printf("waited for %d, %d, own %d\n", sig, info.si_code, info.si_pid == getpid());
}

/* The same by a descriptor. */
static void read_signal(const char *value)
{
	struct signalfd_siginfo info = {0};
	sigset_t set = block_one(atoi(value));
	int fd = signalfd(-1, &set, SFD_CLOEXEC);
	kill(getpid(), atoi(value));
	long n = read(fd, &info, sizeof info);
	printf("read %ld: %u, %d, own %d\n", n, info.ssi_signo, info.ssi_code, info.ssi_pid == (uint32_t)getpid());
	close(fd);
}

static void stop_and_go(const char *value)
{
	(void)value;
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		kill(getppid(), SIGSTOP);
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	status_of(child);
}

static void lose_folder(const char *value)
{
	(void)value;
	if (mkdir("lost", 0700) || chdir("lost") || rmdir("../lost"))
		fail("lost");
}

static void clear_environment(const char *value)
{
	(void)value;
	clearenv();
}

static void mask_files(const char *value)
{
	(void)value;
	umask(0777);
}

static void enter_root(const char *value)
{
	if (chroot(value))
		fail("chroot");
}

/* Where the memory lies that the recorder reads calls from that have not returned; NULL if nothing is recorded. */
static struct ct_shared *shared_memory(void)
{
	char line[512];
	void *found = NULL;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof line, maps)) {
		uintptr_t from, to;
		if (strstr(line, "/memfd:cudatrace") && sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2 &&
		    to - from >= sizeof(struct ct_shared))
			found = (void *)from;
	}
	if (maps)
		fclose(maps);
	return found;
}

static uint64_t monotonic(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Says that each of 512 threads is in a call. The thread's ID is 1000000 and a lie's number, of 16 lies in turn; TestLies
 * knows what becomes of each. Ends by SIGKILL: what is said stays. */
static void lie(const char *value)
{
	(void)value;
	print();
	struct ct_shared *shared = shared_memory();
	uint64_t now = monotonic(), function = (uintptr_t)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuStreamSynchronize") + 1;
	if (shared) {
		shared->from = 0;
		shared->places = 1 | 1ull << 32; /* calls begin at place 0, and ends are noticed */
	}
	for (uint32_t i = 0; shared && i < CT_OPEN_CALLS; i++) {
		struct ct_open *o = &shared->calls[i];
		uint64_t at = now;
		memset(o, 0, sizeof *o);
		*o = (struct ct_open){.tid = 1000000 + i, .inner = function, .epoch = 1, .count = 2, .address = {1, UINT64_MAX}};
		switch (i % 16) {
		case 1: o->inner = (uintptr_t)lie; break; /* in no function of the driver */
		case 2: o->inner = UINT64_MAX; break;
		case 3: o->inner = 0; break;
		case 4: o->count = 0; break;
		case 5: o->count = CT_CHAIN_MAX + 1; break;
		case 6: o->count = UINT64_MAX; break;
		case 7: at = 0; break;
		case 8: at = 1; break;                           /* before the process */
		case 9: at = now + 3600 * 1000000000ull; break; /* in an hour */
		case 10: at = UINT64_MAX; break;
		case 11: o->sequence = 1; break;
		case 12: o->epoch = UINT64_MAX; break;
		case 13: o->last[5] = now + 1; break; /* at a place of which nothing is known */
		case 14: o->tid = 1000000; break;     /* as another thread */
		case 15: o->tid = 0; break;
		}
		o->last[0] = o->time = at;
	}
	raise(SIGKILL);
}

static const struct {
	const char *name;
	void (*act)(const char *value);
} actions[] = {
	{"work", work}, {"launch", launch}, {"end", end}, {"close", close_all}, {"reuse", reuse}, {"overwrite", overwrite},
	{"fill", fill}, {"shut", shut_all}, {"block", block_all}, {"garble", garble_all}, {"limit", limit},
	{"sandbox", sandbox_enter}, {"unshare", unshare_all}, {"fork", fork_child}, {"vfork", fork_exec},
	{"daemon", daemonize}, {"exec", exec_rest}, {"traced", traced}, {"user", become}, {"prctl", set_option},
	{"mask", block_signals}, {"ignore", ignore_signals}, {"storm", storm}, {"calm", calm}, {"handle", handle},
	{"stop", stop_and_go}, {"lose-folder", lose_folder}, {"clear-environment", clear_environment}, {"umask", mask_files},
	{"chroot", enter_root}, {"lie", lie}, {"status", status}, {"wait", wait_status}, {"raise", raise_handled},
	{"await", wait_for_signal}, {"signalfd", read_signal},
};

static void act(char *argument)
{
	char *value = strchr(argument, '=');
	size_t length = value ? (size_t)(value - argument) : strlen(argument);
	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
		if (strlen(actions[i].name) == length && !strncmp(actions[i].name, argument, length)) {
			actions[i].act(value ? value + 1 : NULL);
			return;
		}
	fprintf(stderr, "hostile: no action %s\n", argument);
	exit(2);
}

int main(int argc, char **argv)
{
	(void)argc;
	for (char **a = argv + 1; *a; a++) {
		own.rest = a; /* its first word stands for the program's name */
		act(*a);
	}
	return 1;
}
