/*
 * A socket pair by which other threads wake the control thread. pool.c does so when CUPTI
 * holds many buffers, walk.c inside CUDA calls, handover.c in handlers of signals. Nothing may be called here that
 * waits or takes a lock.
 *
 * It is no eventfd: if a file of the program took over the number of one, waking would
 * write to that file, while send fails on all but sockets. The pair stays open until
 * the process ends.
 */
#include "wake.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sock.h"
#include "thread_state.h"

static struct {
	int listen, tell;
	uint64_t listen_cookie, tell_cookie;
} wake = {.listen = -1, .tell = -1};
static atomic_bool woken, looking;

bool ct_wake_start(void)
{
	int fd[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) != 0)
		return false;
	wake.listen = fd[0];
	wake.tell = fd[1];
	wake.listen_cookie = ct_cookie(fd[0]);
	wake.tell_cookie = ct_cookie(fd[1]);
	return true;
}

static bool tell(void)
{
	return ct_cookie(wake.tell) == wake.tell_cookie &&
	       (send(wake.tell, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN);
}

void ct_wake_flush(void)
{
	if (ct_running() && !atomic_exchange(&woken, true))
		tell();
}

void ct_wake_look(void)
{
	if (ct_running() && !atomic_exchange(&looking, true))
		tell();
}

/* False when there is no control thread, or the caller is a thread of ours. */
bool ct_wake_handover(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	if (!ct_running() || ct_is_own_thread(tid))
		return false;
	return tell();
}

int ct_wake_fd(void)
{
	return wake.listen;
}

bool ct_wake_receive(void)
{
	char bytes[64];
	if (ct_cookie(wake.listen) != wake.listen_cookie) {
		wake.listen = -1;
		return false;
	}
	recv(wake.listen, bytes, sizeof bytes, MSG_DONTWAIT);
	atomic_store(&looking, false);
	return atomic_load(&woken);
}

/* From now on a wish to flush wakes the control thread again. */
void ct_wake_received(void)
{
	atomic_store(&woken, false);
}

void ct_wake_forked(void)
{
	if (ct_cookie(wake.listen) == wake.listen_cookie)
		close(wake.listen);
	if (ct_cookie(wake.tell) == wake.tell_cookie)
		close(wake.tell);
}
