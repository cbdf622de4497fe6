/*
 * Reading a chain of frame pointers without ever touching memory that is not there. walk.c
 * reads the stack of the calling thread with it, inside CUDA calls: nothing may be called
 * that waits, allocates or takes a lock.
 *
 * Whether a page can be read is asked of the kernel, by a system call that every sandbox
 * allows and that changes nothing: rt_sigprocmask with an operation that does not exist
 * reads the new mask before it refuses the operation. A thread's own stack is asked about
 * once, from its end down to the frames in use, since it stays while the thread lives. Any
 * other stack (a coroutine's, a signal handler's) may be gone at the next call: its first
 * page holds our own frame, and each further page is asked about each time.
 */
#include "stack.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096u       /* or a part of one */
#define MOST_PAGES 4096u /* looked at in one go, of a thread's own stack */
#define OTHER_PAGES 3u   /* looked at of another stack */
#define NO_OPERATION (-1)

static uintptr_t page_of(uintptr_t address)
{
	return address & ~(uintptr_t)(PAGE - 1);
}

static bool readable(uintptr_t page)
{
	int before = errno;
	long r = syscall(SYS_rt_sigprocmask, NO_OPERATION, page, NULL, (size_t)8);
	bool can = r == -1 && errno == EINVAL;
	errno = before;
	return can;
}

/* Whether the page at an address can be read now. */
bool ct_readable(uintptr_t address)
{
	return readable(page_of(address));
}

/*
 * The end of the calling thread's stack: glibc puts a thread's descriptor there, the kernel the
 * program's path in the case of the first thread.
 */
void ct_home_find(struct ct_home *h)
{
	bool first = syscall(SYS_gettid) == getpid();
	uintptr_t end = first ? (uintptr_t)getauxval(AT_EXECFN) : (uintptr_t)pthread_self();
	h->high = end & ~(uintptr_t)15;
	h->low = h->high;
	h->floor = 0;
	if (!readable(page_of(h->high)))
		h->floor = UINTPTR_MAX;
	else
		h->low = page_of(h->high);
}

/* Whether a frame is on the thread's own stack. */
static bool at_home(struct ct_home *h, uintptr_t frame)
{
	uintptr_t page = page_of(frame);
	if (frame >= h->high || page <= h->floor)
		return false;
	if (page < h->low && (h->low - page) / PAGE > MOST_PAGES) {
		h->floor = page;
		return false;
	}
	for (; h->low > page; h->low -= PAGE) {
		if (!readable(h->low - PAGE)) {
			h->floor = h->low - PAGE;
			return false;
		}
	}
	return true;
}

/* frame is one of ours, in use now. */
void ct_view_begin(struct ct_view *v, struct ct_home *h, uintptr_t frame)
{
	v->from = frame;
	v->more = 0;
	if (at_home(h, frame)) {
		v->to = h->high;
		return;
	}
	v->to = page_of(frame) + PAGE;
	v->more = OTHER_PAGES;
}

#ifdef CT_CHECKED
__attribute__((no_sanitize("address", "thread"))) uintptr_t ct_stack_word(uintptr_t at)
{
	return *(const volatile uintptr_t *)at;
}
#endif

/* Whether all up to an address can be read. */
bool ct_view_reaches(struct ct_view *v, uintptr_t end)
{
	while (end > v->to) {
		if (v->more == 0 || !readable(v->to))
			return false;
		v->more--;
		v->to += PAGE;
	}
	return true;
}
