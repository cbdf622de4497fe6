/*
 * Guarded reads of memory that is there, that is not, and that can't be read; a fault of somebody else's; and the place of a thread's
 * ID in glibc's struct pthread, by which pyframes and the eBPF program find threads of Python before 3.11.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"

static sigjmp_buf back;
static int taken, left;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	taken++;
	if (ct_guard_leave(context))
		return;
	left++;
	siglongjmp(back, 1);
}

static int failed;

static void check(int right, const char *what)
{
	if (!right)
		printf("wrong: %s\n", what);
	failed |= !right;
}

static void reads(const char *what, uintptr_t at, int there)
{
	uint32_t bad8 = 0, bad4 = 0, bad1 = 0, before = 1;
	check(ct_guarded8(at, &bad8) == (there ? 0x8877665544332211ull : 0) && bad8 == !there, what);
	check(ct_guarded4(at, &bad4) == (there ? 0x44332211u : 0) && bad4 == !there, what);
	check(ct_guarded1(at, &bad1) == (there ? 0x11 : 0) && bad1 == !there, what);
	ct_guarded8(at, &before);
	check(before == 1, "a failure is forgotten");
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	const uint64_t value = 0x8877665544332211ull;
	char odd[16];
	memcpy(odd + 3, &value, sizeof value);
	reads("memory", (uintptr_t)&value, 1);
	reads("an odd address", (uintptr_t)odd + 3, 1);
	check(taken == 0, "a fault where there is memory");
	void *none = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reads("memory that cannot be read", (uintptr_t)none, 0);
	reads("null", 0, 0);
	check(taken == 8 && left == 0, "a fault is not taken");
	if (sigsetjmp(back, 1) == 0)
		*(volatile char *)none = 0;
	check(taken == 9 && left == 1, "a fault of somebody else's is taken");
	check(*(pid_t *)((uintptr_t)pthread_self() + PTHREAD_TID) == syscall(SYS_gettid), "the place of a thread's ID");
	return failed;
}
