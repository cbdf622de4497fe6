/*
 * Calls of the socket to the recorder, for the handshakes and for the threads of ours.
 * None may raise a signal, wait past its deadline, or print.
 */
#include "sock.h"

#include "clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The socket lies beside this library, under the name "sock". */
static bool socket_path(struct sockaddr_un *to)
{
	static const char here; /* any address within this library */
	Dl_info info;
	if (!dladdr(&here, &info) || !info.dli_fname)
		return false;
	const char *slash = strrchr(info.dli_fname, '/');
	if (!slash)
		return false;
	size_t folder = (size_t)(slash - info.dli_fname) + 1;
	if (folder + sizeof "sock" > sizeof to->sun_path)
		return false;
	memset(to, 0, sizeof *to);
	to->sun_family = AF_UNIX;
	memcpy(to->sun_path, info.dli_fname, folder);
	memcpy(to->sun_path + folder, "sock", sizeof "sock");
	return true;
}

/* False when the deadline is over. */
static bool wait_for(int fd, short events, uint64_t deadline)
{
	for (;;) {
		uint64_t now = ct_now();
		if (now >= deadline)
			return false;
		struct pollfd p = {.fd = fd, .events = events};
		int n = poll(&p, 1, (int)((deadline - now) / CT_MS) + 1);
		if (n > 0)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
	}
}

/* Whether there is something to read before the deadline. */
bool ct_readable(int fd, uint64_t deadline)
{
	return wait_for(fd, POLLIN, deadline);
}

/* Connects to the recorder; -1 when there is none. */
int ct_connect(uint64_t deadline)
{
	struct sockaddr_un to;
	if (!socket_path(&to))
		return -1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	while (connect(fd, (const struct sockaddr *)&to, sizeof to) != 0) {
		/* EAGAIN: the recorder's backlog is full, as when many processes start at once. */
		if ((errno != EAGAIN && errno != EINTR) || ct_now() >= deadline) {
			close(fd);
			return -1;
		}
		poll(NULL, 0, 10);
	}
	return fd;
}

/*
 * The kernel's own number of a socket, 0 when fd is no socket. Programs close
 * descriptors that they did not open (daemons do). A file that gets our number then
 * is the program's, and must neither be written to nor closed.
 */
uint64_t ct_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof cookie;
	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0)
		return 0;
	return cookie;
}

bool ct_send_wait(int fd, const void *data, size_t size, uint64_t deadline)
{
	const unsigned char *p = data;
	while (size > 0) {
		ssize_t n = send(fd, p, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0) {
			p += n;
			size -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			if (!wait_for(fd, POLLOUT, deadline))
				return false;
		} else if (n == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}

bool ct_recv_wait(int fd, void *data, size_t size, uint64_t deadline)
{
	unsigned char *p = data;
	while (size > 0) {
		ssize_t n = recv(fd, p, size, MSG_DONTWAIT);
		if (n > 0) {
			p += n;
			size -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			if (!wait_for(fd, POLLIN, deadline))
				return false;
		} else if (n == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}
