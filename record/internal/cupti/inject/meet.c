/*
 * How a process meets the recorder, through a socket in the folder of this library: whether it may, the socket, the
 * recorder's answer, and the wait of a process for a recorder that comes later. main.c and nvtx.c come here; nothing
 * of a recording may be touched. Nothing may raise a signal, wait past its deadline, or print.
 */
#include "meet.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base.h"
#include "wire.h"

/*
 * The rehearsal. A sandbox that the process has entered before CUDA's start may kill for the system calls of the
 * handshake, and there is no way to ask. So a child makes these calls first, where there is a sandbox.
 */

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

/* The socket. */

#define NAME_BESIDE 64
#define PATH_BESIDE (sizeof((struct sockaddr_un *)NULL)->sun_path + NAME_BESIDE) /* the folder's fits into a socket's */
#define DESCRIPTORS 4 /* that may come with a message */

/* The path of this library, "" where it is not known. */
static const char *own_path(void)
{
	static const char here; /* any address within this library */
	Dl_info info;
	return dladdr(&here, &info) && info.dli_fname ? info.dli_fname : "";
}

/* The path of a file in the folder of this library; false if there is no room for it. */
static bool path_beside(const char *name, char *path, size_t room)
{
	const char *own = own_path(), *slash = strrchr(own, '/');
	if (!slash)
		return false;
	size_t folder = (size_t)(slash - own) + 1, size = strlen(name) + 1;
	if (folder + size > room)
		return false;
	memcpy(path, own, folder);
	memcpy(path + folder, name, size);
	return true;
}

/* False when the deadline is over. Where a sandbox refuses poll, the caller tries again and again. */
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
			ct_pause(CT_MS);
			return true;
		}
	}
}

/* Connects to the recorder; -1 when there is none. */
int ct_connect(uint64_t deadline)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	if (!path_beside("sock", to.sun_path, sizeof to.sun_path))
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

bool ct_send_wait(int fd, const void *data, size_t size, uint64_t deadline)
{
	const unsigned char *p = data;
	while (size > 0) {
		ssize_t n = send(fd, p, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0) {
			p += n;
			size -= (size_t)n;
		} else if (n == 0 || (errno != EINTR && (errno != EAGAIN || !wait_for(fd, POLLOUT, deadline)))) {
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
		if (i < count && passed[i] < 0)
			passed[i] = one;
		else
			close(one);
	}
	return n;
}

static void close_all(const int *passed, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (passed[i] >= 0)
			close(passed[i]);
}

/* Receives all of it, and the descriptors that come along, -1 for each that does not. */
static bool recv_wait(int fd, void *data, size_t size, int *passed, unsigned count, uint64_t deadline)
{
	unsigned char *p = data;
	for (unsigned i = 0; i < count; i++)
		passed[i] = -1;
	while (size > 0) {
		ssize_t n = receive(fd, p, size, passed, count);
		if (n > 0) {
			p += n;
			size -= (size_t)n;
		} else if (n == 0 || (errno != EINTR && (errno != EAGAIN || !wait_for(fd, POLLIN, deadline)))) {
			close_all(passed, count);
			return false;
		}
	}
	return true;
}

/* The recorder's answer. Its lengths must be checked before anything is read by them. */

static struct ct_go *receive_payload(int fd, uint32_t length, uint64_t deadline)
{
	if (length < sizeof(struct ct_go) || length > CT_GO_MAX)
		return NULL;
	struct ct_go *payload = ct_alloc(length);
	if (payload && !recv_wait(fd, payload, length, NULL, 0, deadline)) {
		ct_free(payload, length);
		payload = NULL;
	}
	return payload;
}

/* The frame of GO, whose descriptors alone are kept. Each WAIT before it may move the deadline. */
static bool receive_frame(int fd, struct ct_frame *f, int *passed, unsigned count, uint64_t *deadline)
{
	uint64_t last = *deadline + (CT_GO_MOST_MS - CT_GO_WAIT_MS) * CT_MS;
	while (recv_wait(fd, f, sizeof *f, passed, count, *deadline)) {
		if (f->type == CT_MSG_GO)
			return true;
		close_all(passed, count);
		if (f->type != CT_MSG_WAIT || f->length != 0)
			return false;
		uint64_t later = ct_now() + CT_GO_WAIT;
		if (later > *deadline)
			*deadline = later < last ? later : last;
	}
	return false;
}

/*
 * The payload of GO in memory of its own, NULL when none came in time. The descriptors that came along
 * become the caller's; -1 for each that did not.
 */
struct ct_go *ct_go_receive(int fd, uint32_t *length, int *passed, unsigned count, uint64_t *deadline)
{
	struct ct_frame f;
	if (!receive_frame(fd, &f, passed, count, deadline))
		return NULL;
	*length = f.length;
	struct ct_go *payload = receive_payload(fd, f.length, *deadline);
	if (!payload)
		close_all(passed, count);
	return payload;
}

/*
 * The candidates behind GO; at and left move behind them. Each path moves one byte to
 * the left, over the last byte of its length, to make room for the zero behind it.
 */
unsigned ct_go_candidates(unsigned char **at, uint32_t *left, uint32_t count, struct ct_candidate *list)
{
	unsigned n = 0;
	while (n < count && n < CT_CANDIDATES_MAX && *left >= 8) {
		unsigned char *p = *at;
		uint32_t major, length;
		memcpy(&major, p, 4);
		memcpy(&length, p + 4, 4);
		if (length > *left - 8)
			break;
		memmove(p + 7, p + 8, length);
		p[7 + length] = 0;
		list[n++] = (struct ct_candidate){.path = (const char *)p + 7, .major = major};
		*at += 8 + length;
		*left -= 8 + length;
	}
	return n;
}

/* The NVTX range at the end of a GO, range_len bytes: a name, NUL and a domain; NULL without one. */
const char *ct_go_range(const struct ct_go *go, uint32_t length)
{
	if (go->range_len == 0 || go->range_len > length - sizeof *go)
		return NULL;
	return (const char *)go + length - go->range_len;
}

/*
 * A process that 'cudatrace run --armed' started finds a page beside this library. A recorder writes there which
 * processes it wants and rings; the thread that sleeps here then meets it. Until then there is nothing of ours but
 * this thread and the page, and functions in the program's table of NVTX (standby.c): no CUPTI, no
 * descriptor, no signal handler.
 */

#define STACK (1u << 20) /* CUPTI runs on it; memory is taken for what is used alone */

static struct ct_armed *page;
static const struct ct_copy *first;

/* Maps the page; NULL in a process that is not armed. The descriptor is closed at once: the program may count on its numbers. */
static struct ct_armed *find_page(void)
{
	char path[PATH_BESIDE];
	if (!path_beside("armed", path, sizeof path))
		return NULL;
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	bool whole = syscall(SYS_lseek, (int)fd, 0, SEEK_END) == (long)sizeof *page; /* memory behind a file's end kills */
	struct ct_armed *p = whole ? ct_map_shared((int)fd, sizeof *p) : NULL;
	close((int)fd);
	return p;
}

/* Whether this process was started to wait for a recorder. */
bool ct_armed(void)
{
	static atomic_int known; /* 1: it was; 2: it was not */
	char path[PATH_BESIDE];
	if (atomic_load(&known) == 0) {
		long fd = -1;
		if (path_beside("armed", path, sizeof path))
			fd = syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0)
			close((int)fd);
		atomic_store(&known, fd >= 0 ? 1 : 2);
	}
	return atomic_load(&known) == 1;
}

static bool is_wanted(void)
{
	uint32_t self = (uint32_t)ct_self(), count = atomic_load(&page->count);
	for (uint32_t i = 0; i < count && i < CT_ARMED_PIDS; i++)
		if (atomic_load(&page->pids[i]) == self)
			return true;
	return false;
}

/* Copies this library to a path; false when that fails. */
static bool copy_to(const char *path)
{
	long in = syscall(SYS_openat, AT_FDCWD, own_path(), O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return false;
	syscall(SYS_unlinkat, AT_FDCWD, path, 0); /* what a process with this ID left that was killed */
	long out = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);
	long n = out < 0 ? -1 : 1;
	while (n > 0)
		n = syscall(SYS_sendfile, (int)out, (int)in, NULL, 1u << 20);
	if (out >= 0)
		close((int)out);
	close((int)in);
	return n == 0;
}

/*
 * The variables of a copy as they are when it is loaded, so that one copy can make many recordings: those of .data are
 * kept, and the others are zero. What is between the first two comes from the dynamic linker and does not change.
 */
extern char __start_ct_kept[] __attribute__((visibility("hidden")));
extern char __stop_ct_kept[] __attribute__((visibility("hidden")));

#define DATA_MOST 1024 /* of .data, bytes */

/* Where the variables begin, those begin that are zero, and all end; NULL where that is not known. */
static CT_KEPT char *data, *zeros, *end;
static CT_KEPT char image[DATA_MOST];

/* Finds them: they follow what the dynamic linker has made read-only. */
static int find_data(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t own = (uintptr_t)image, from = 0, zero = 0, to = 0;
	(void)size, (void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && own >= at && own < at + p->p_memsz) {
			from = at > from ? at : from;
			zero = at + p->p_filesz;
			to = at + p->p_memsz;
		}
		if (p->p_type == PT_GNU_RELRO && at + p->p_memsz > from)
			from = at + p->p_memsz;
	}
	if (to != 0 && zero - from - (size_t)(__stop_ct_kept - __start_ct_kept) <= DATA_MOST) {
		data = (char *)from;
		zeros = (char *)zero;
		end = (char *)to;
	}
	return to != 0;
}

/* Copies variables from .data, or back, except those that are kept. */
__attribute__((no_sanitize_address)) static void copy_data(bool back)
{
	char *kept = image;
	for (char *p = data; p < zeros; p++)
		if (p < __start_ct_kept || p >= __stop_ct_kept)
			*(back ? p : kept) = *(back ? kept : p), kept++;
}

/*
 * Makes a copy of this library as it was when it was loaded; false when that cannot be, because of a thread that is in it.
 * Called before each of its recordings; behind the first one only if what CUPTI or the program may still call comes in by
 * ct_come_in, or touches nothing but variables that are kept.
 */
__attribute__((no_sanitize_address)) bool ct_start_anew(void)
{
	static CT_KEPT bool used;
	if (used) {
		if (!data || !ct_shut())
			return false;
		ct_free_all();
		copy_data(true);
		for (char *p = zeros; p < end; p++)
			if (p < __start_ct_kept || p >= __stop_ct_kept)
				*p = 0;
		ct_open();
	} else if (dl_iterate_phdr(find_data, NULL) && data) {
		copy_data(false);
	}
	return used = true;
}

/*
 * A copy of this library, which has variables of its own; NULL when there can be none. It stays mapped: the program's
 * threads, CUPTI and glibc have addresses of functions in it.
 */
static const struct ct_copy *load_copy(uint32_t number)
{
	char name[NAME_BESIDE], path[PATH_BESIDE];
	snprintf(name, sizeof name, "recording-%d-%u.so", (int)ct_self(), number);
	if (!path_beside(name, path, sizeof path))
		return NULL;
	void *copy = copy_to(path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	syscall(SYS_unlinkat, AT_FDCWD, path, 0);
	return copy ? dlsym(copy, CT_COPY_SYMBOL) : NULL;
}

/* Further ones have no Python lines: where CUPTI is not taken out, each one with lines costs the memory of one more copy. */
#define COPIES_WITH_LINES 8

bool ct_meeting_begin(struct ct_meeting *m)
{
	atomic_store(&m->busy, 1);
	return atomic_load(&m->exits) == 0;
}

void ct_meeting_end(struct ct_meeting *m)
{
	atomic_store(&m->busy, 0);
	ct_word_wake(&m->busy);
}

/* One recording, to its end. next is who makes it, last who made the one before; NULL without. */
static bool serve(const struct ct_copy *next, const struct ct_copy *last, bool lines)
{
	pthread_setname_np(pthread_self(), "cudatrace"); /* threads of CUPTI's get this name, too */
	bool met = next->meet(first->meeting, last ? &last->pool : NULL, first->give, lines);
	while (met && !next->over(CT_FOREVER)) /* the program ends, and another recorder must not touch what it still uses */
		ct_pause(CT_SECOND);
	first->give(NULL); /* whatever ended it */
	pthread_setname_np(pthread_self(), CT_ARMED_THREAD);
	return met;
}

/* The recorder writes the list first. One that was killed leaves its word: the next one changes it. */
static void *wait_for_recorder(void *arg)
{
	const struct ct_copy *last = NULL, *next = first;
	for (uint32_t seen = 0, number = 1;;) {
		uint32_t word = atomic_load(&page->word);
		if (word == seen) {
			ct_shared_wait(&page->word, seen, CT_FOREVER);
			continue;
		}
		seen = word;
		if (!is_wanted())
			continue;
		bool begins = ct_meeting_begin(first->meeting); /* before a copy is made anew: its exit handler may run */
		if (begins && next != first && (!next || !next->anew())) {
			next = load_copy(number++);
			if (next)
				next->anew();
		}
		ct_meeting_end(first->meeting);
		if (begins && next && serve(next, last, number <= COPIES_WITH_LINES)) {
			last = next->finalized() ? NULL : next;
			if (next == first)
				next = NULL;
		}
	}
	return arg;
}

/*
 * In an armed process: own.meet is called on a thread of ours for the first recorder that wants it, and that of a copy
 * for each later one. A process for which there is no thread runs unrecorded.
 */
void ct_armed_start(const struct ct_copy *own)
{
	page = find_page();
	first = own;
	if (page)
		ct_thread_start(NULL, wait_for_recorder, STACK, CT_ARMED_THREAD);
}
