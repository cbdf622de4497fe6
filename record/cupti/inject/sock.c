/*
 * Calls of the socket to the recorder, for the handshakes and for the threads of ours.
 * None may raise a signal, wait past its deadline, or print.
 */
#include "sock.h"

#include "clock.h"
#include "lock.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define RETRY CT_MS /* between tries where nothing can be waited for */

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

/*
 * False when the deadline is over. poll fails where a sandbox refuses it, and where the
 * program's limit of descriptors is 0: the caller then tries again and again.
 */
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
		if (n < 0 && errno != EINTR) {
			ct_pause(RETRY);
			return true;
		}
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
		ct_pause(10 * CT_MS);
	}
	return fd;
}

/* The kernel's own number of a socket; false with errno when it does not tell. */
static bool cookie_of(int fd, uint64_t *cookie)
{
	socklen_t size = sizeof *cookie;
	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &size) == 0;
}

static bool inode_of(int fd, uint64_t *inode)
{
	struct stat s;
	bool is = syscall(SYS_fstat, fd, &s) == 0 && S_ISSOCK(s.st_mode);
	*inode = is ? s.st_ino : 0;
	return is;
}

void ct_identify(int fd, struct ct_identity *i)
{
	*i = (struct ct_identity){0};
	cookie_of(fd, &i->cookie);
	inode_of(fd, &i->inode);
}

/*
 * Whether fd still is that socket; errno says why it is not, or cannot be told. Programs close
 * descriptors that they did not open (daemons do). A file that gets our number then
 * is the program's, and must neither be written to nor closed.
 */
bool ct_same_socket(int fd, const struct ct_identity *i)
{
	uint64_t number = 0;
	errno = EBADF;
	if (i->cookie != 0 && cookie_of(fd, &number))
		return number == i->cookie;
	if (errno == ENOTSOCK || i->inode == 0)
		return false;
	return inode_of(fd, &number) && number == i->inode;
}

/* Whether the call failed for now, or as it should: no other call would do better. */
static bool final(int error)
{
	static const int errors[] = {EAGAIN, EINTR, EPIPE, ECONNRESET, ENOTCONN, EBADF, ENOTSOCK, ENOBUFS, ENOMEM};
	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
		if (error == errors[i])
			return true;
	return false;
}

/* Whether the same call may succeed later. */
bool ct_transient(int error)
{
	return error == EAGAIN || error == EINTR || error == ENOBUFS || error == ENOMEM;
}

/* As send without waiting, by another system call where a sandbox refuses that one. */
ssize_t ct_send_some(int fd, const void *data, size_t size)
{
	ssize_t n = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n >= 0 || final(errno))
		return n;
	struct iovec from = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
	return sendmsg(fd, &(struct msghdr){.msg_iov = &from, .msg_iovlen = 1}, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* As recv without waiting, likewise. */
ssize_t ct_recv_some(int fd, void *data, size_t size)
{
	ssize_t n = recv(fd, data, size, MSG_DONTWAIT);
	if (n >= 0 || final(errno))
		return n;
	struct iovec to = {.iov_base = data, .iov_len = size};
	return recvmsg(fd, &(struct msghdr){.msg_iov = &to, .msg_iovlen = 1}, MSG_DONTWAIT);
}

bool ct_send_wait(int fd, const void *data, size_t size, uint64_t deadline)
{
	const unsigned char *p = data;
	while (size > 0) {
		ssize_t n = ct_send_some(fd, p, size);
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

/* Also after the start, so without poll. */
bool ct_recv_wait(int fd, void *data, size_t size, uint64_t deadline)
{
	unsigned char *p = data;
	while (size > 0) {
		ssize_t n = ct_recv_some(fd, p, size);
		if (n > 0) {
			p += n;
			size -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN && ct_now() < deadline) {
			ct_pause(RETRY);
		} else if (n == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}
