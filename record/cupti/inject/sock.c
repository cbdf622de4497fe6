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

/* As recv, and takes a descriptor that comes along; *passed stays -1 without one. */
static ssize_t receive(int fd, void *data, size_t size, int *passed)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec to = {.iov_base = data, .iov_len = size};
	struct msghdr m = {.msg_iov = &to, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(passed, CMSG_DATA(c), sizeof(int));
	return n;
}

/*
 * Receives the beginning of a message and the descriptor that comes along, -1 without one. Where
 * descriptors are refused, the message comes without.
 */
bool ct_recv_passed(int fd, void *data, size_t size, int *passed, uint64_t deadline)
{
	*passed = -1;
	if (size == 0 || !ct_readable(fd, deadline))
		return false;
	ssize_t n = receive(fd, data, size, passed);
	size_t got = n > 0 ? (size_t)n : 0;
	if (ct_recv_wait(fd, (char *)data + got, size - got, deadline))
		return true;
	if (*passed >= 0)
		close(*passed);
	*passed = -1;
	return false;
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
