/*
 * Whether the process may meet the recorder. A sandbox that it has entered before CUDA's start may
 * kill for the system calls of the handshake, and there is no way to ask. So a child makes these calls first,
 * where there is a sandbox. main.c and nvtx.c come here before they connect.
 */
#include "rehearsal.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem.h"
#include "sigmask.h"

/* How far the child has come. */
struct progress {
	atomic_bool waited, done;
};

/* Whether the process has no filter of system calls. It has just opened and read files to load us. */
static bool unfiltered(void)
{
	static const char none[] = "\nSeccomp:\t0";
	char status[4096];
	long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	long n = syscall(SYS_read, (int)fd, status, sizeof status - 1);
	close((int)fd);
	for (long i = 0; i + (long)sizeof none - 1 <= n; i++)
		if (memcmp(status + i, none, sizeof none - 1) == 0)
			return true;
	return false;
}

/* The calls of the handshake and of the start of threads, to no effect. What they answer says nothing. */
static void rehearse(struct progress *p)
{
	char byte = 0;
	struct iovec io = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
	struct sockaddr to = {.sa_family = AF_UNIX};
	struct sigaction action;
	syscall(SYS_prctl, PR_SET_DUMPABLE, 0); /* no core dump of the child */
	syscall(SYS_wait4, -1, NULL, WNOHANG | __WCLONE, NULL);
	atomic_store(&p->waited, true);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	connect(fd, &to, sizeof to);
	poll(NULL, 0, 0);
	send(fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	recv(fd, &byte, 1, MSG_DONTWAIT);
	recvmsg(fd, &m, MSG_DONTWAIT);
	sigaction(SIGURG, NULL, &action);
	close(fd);
	atomic_store(&p->done, true);
}

/*
 * False when the handshake would kill the process. The child has a memory of its own: in older kernels
 * a core dump ends all processes that share one. It sends no signal when it ends, and the program's own waits do not
 * find it.
 */
bool ct_rehearsed(void)
{
	if (unfiltered())
		return true;
	struct progress *p = ct_alloc_shared(sizeof *p);
	if (!p)
		return false;
	sigset_t before;
	ct_sigmask_block(&before); /* in the child, too: a handler of the program's would run twice */
	long child = syscall(SYS_clone, CLONE_VFORK | CLONE_UNTRACED, NULL, NULL, NULL, NULL);
	if (child == 0) {
		rehearse(p);
		for (;;)
			syscall(SYS_exit_group, 0);
	}
	ct_sigmask_restore(&before);
	bool survived = child < 0 || atomic_load(&p->done); /* where there can be no child, it is not known */
	if (child > 0 && atomic_load(&p->waited))
		syscall(SYS_wait4, child, NULL, __WCLONE, NULL);
	ct_free_shared(p, sizeof *p);
	return survived;
}
