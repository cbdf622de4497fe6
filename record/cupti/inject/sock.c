/*
 * Calls of the socket to the recorder, for the handshakes.
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
#include <sys/un.h>
#include <unistd.h>

#define RETRY CT_MS /* between tries where nothing can be waited for */
#define DESCRIPTORS 4 /* that may come with a message */

_Static_assert(CT_PATH_BESIDE == sizeof((struct sockaddr_un *)NULL)->sun_path, "path");

/* The path of a file in the folder of this library; false if that is too long for a socket. */
bool ct_path_beside(const char *name, char path[CT_PATH_BESIDE])
{
	static const char here; /* any address within this library */
	Dl_info info;
	if (!dladdr(&here, &info) || !info.dli_fname)
		return false;
	const char *slash = strrchr(info.dli_fname, '/');
	if (!slash)
		return false;
	size_t folder = (size_t)(slash - info.dli_fname) + 1, size = strlen(name) + 1;
	if (folder + size > CT_PATH_BESIDE)
		return false;
	memcpy(path, info.dli_fname, folder);
	memcpy(path + folder, name, size);
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
static bool readable(int fd, uint64_t deadline)
{
	return wait_for(fd, POLLIN, deadline);
}

/* Connects to the recorder; -1 when there is none. */
int ct_connect(uint64_t deadline)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	if (!ct_path_beside("sock", to.sun_path))
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

/* Whether the call failed for now, or as it should: no other call would do better. */
static bool final(int error)
{
	static const int errors[] = {EAGAIN, EINTR, EPIPE, ECONNRESET, ENOTCONN, EBADF, ENOTSOCK, ENOBUFS, ENOMEM};
	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
		if (error == errors[i])
			return true;
	return false;
}

/* As send without waiting, by another system call where a sandbox refuses that one. */
static ssize_t send_some(int fd, const void *data, size_t size)
{
	ssize_t n = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n >= 0 || final(errno))
		return n;
	struct iovec from = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
	return sendmsg(fd, &(struct msghdr){.msg_iov = &from, .msg_iovlen = 1}, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* As recv without waiting, likewise. */
static ssize_t recv_some(int fd, void *data, size_t size)
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
		ssize_t n = send_some(fd, p, size);
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

/* As recv, and takes descriptors that come along, at most count. */
static ssize_t receive(int fd, void *data, size_t size, int *passed, unsigned count)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
	} control;
	struct iovec to = {.iov_base = data, .iov_len = size};
	struct msghdr m = {.msg_iov = &to, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return n;
	for (unsigned i = 0; i < DESCRIPTORS && CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
		int one;
		memcpy(&one, CMSG_DATA(c) + i * sizeof one, sizeof one);
		if (i < count)
			passed[i] = one;
		else
			close(one);
	}
	return n;
}

/*
 * Receives the beginning of a message and the descriptors that come along, -1 for each that does not.
 * Where descriptors are refused, the message comes without.
 */
bool ct_recv_passed(int fd, void *data, size_t size, int *passed, unsigned count, uint64_t deadline)
{
	for (unsigned i = 0; i < count; i++)
		passed[i] = -1;
	ssize_t n = -1;
	errno = EAGAIN;
	while (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		if (!readable(fd, deadline))
			return false;
		n = receive(fd, data, size, passed, count);
	}
	size_t got = n > 0 ? (size_t)n : 0;
	if (ct_recv_wait(fd, (char *)data + got, size - got, deadline))
		return true;
	for (unsigned i = 0; i < count; i++)
		if (passed[i] >= 0)
			close(passed[i]);
	return false;
}

bool ct_recv_wait(int fd, void *data, size_t size, uint64_t deadline)
{
	unsigned char *p = data;
	while (size > 0) {
		ssize_t n = recv_some(fd, p, size);
		if (n > 0) {
			p += n;
			size -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			if (!readable(fd, deadline))
				return false;
		} else if (n == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}
