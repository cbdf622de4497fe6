/*
 * Waiting for a recorder, in a process that 'cudatrace run --armed' started. Such a process finds a page
 * beside this library. A recorder writes there which processes it wants and rings; the thread that
 * sleeps here then meets it. Until then there is nothing of ours but this thread and the page: no
 * CUPTI, no descriptor, no handler. main.c starts it; nothing of a recording may be touched here.
 */
#include "armed.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fork.h"
#include "lock.h"
#include "mem.h"
#include "sigmask.h"
#include "sock.h"
#include "wire.h"

#define STACK (1u << 20) /* CUPTI runs on it; memory is taken for what is used alone */
#define LARGE_STACK (8u << 20)

static struct ct_armed *page;
static bool (*meet_recorder)(void);

/* Maps the page; NULL in a process that is not armed. The descriptor is closed at once: the program may count on its numbers. */
static struct ct_armed *find_page(void)
{
	char path[CT_PATH_BESIDE];
	if (!ct_path_beside("armed", path))
		return NULL;
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	bool whole = syscall(SYS_lseek, (int)fd, 0, SEEK_END) == (long)sizeof *page; /* memory behind a file's end kills */
	struct ct_armed *p = whole ? ct_map_shared((int)fd, sizeof *p) : NULL;
	close((int)fd);
	return p;
}

static bool is_wanted(void)
{
	uint32_t self = (uint32_t)ct_self(), count = atomic_load(&page->count);
	for (uint32_t i = 0; i < count && i < CT_ARMED_PIDS; i++)
		if (atomic_load(&page->pids[i]) == self)
			return true;
	return false;
}

/* The recorder writes the list first. One that was killed leaves its word: the next one changes it. */
static void *wait_for_recorder(void *arg)
{
	for (uint32_t seen = 0;;) {
		uint32_t word = atomic_load(&page->word);
		if (word == seen) {
			ct_shared_wait(&page->word, seen, CT_FOREVER);
			continue;
		}
		seen = word;
		if (!is_wanted())
			continue;
		pthread_setname_np(pthread_self(), "cudatrace"); /* threads of CUPTI's get this name, too */
		if (meet_recorder())
			return arg;
		pthread_setname_np(pthread_self(), CT_ARMED_THREAD);
	}
}

static bool start_thread(void)
{
	pthread_t t;
	pthread_attr_t attr;
	sigset_t before;
	if (pthread_attr_init(&attr) != 0)
		return false;
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ct_sigmask_block(&before);
	int r = pthread_create(&t, &attr, wait_for_recorder, NULL);
	if (r != 0 && pthread_attr_setstacksize(&attr, LARGE_STACK) == 0) /* for a program with much thread-local data */
		r = pthread_create(&t, &attr, wait_for_recorder, NULL);
	if (r == 0)
		pthread_setname_np(t, CT_ARMED_THREAD);
	ct_sigmask_restore(&before);
	pthread_attr_destroy(&attr);
	return r == 0;
}

/*
 * True in an armed process: meet is called on a thread of ours for each recorder that wants it, until meet
 * returns true. A process for which there is no thread runs unrecorded.
 */
bool ct_armed_start(bool (*meet)(void))
{
	page = find_page();
	if (!page)
		return false;
	meet_recorder = meet;
	start_thread();
	return true;
}
