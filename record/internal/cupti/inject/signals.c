/*
 * Signals that end the program. Where it has no handler of its own for one, ours hands
 * over and then lets the signal do what it would have done: the program dies of it,
 * with the same status and, since it is delivered where it first came, the same core
 * dump. main.c installs the handlers and threads.c takes them away. A handler of the
 * program must never be replaced; one that it installs later replaces ours. Ours runs on the alternate stack that the
 * thread has, if any, and none is made: a thread that has overflowed its stack without one dies with what was not
 * flushed.
 *
 * One signal more, which does nothing by default, is for the recorder: it sees a thread
 * on its way into _exit or execve, which nothing in here does, and stops the thread
 * with that signal until all is handed over.
 */
#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base.h"
#include "flush.h"
#include "guard.h"
#include "link.h"
#include "wire.h"

#define TWIN (50 * CT_MS) /* of a signal: sent twice by one cause, as timeout(1) and terminals do */
#define EXIT_PAUSE (100 * CT_MS) /* between exit signals that come from elsewhere */
#define LEFT_WAIT CT_SECOND /* at the end: for the recorder to say that it has left */
#define BREAKPOINT 6 /* TRAP_PERF: of a recorder that has died, which the program has run into at that moment (package door) */
#define REALTIME_FIRST 61
#define REALTIME_TRIES 8

static const unsigned char fatal[] = {
	SIGHUP,	 SIGINT,  SIGQUIT, SIGILL,    SIGTRAP, SIGABRT, SIGBUS,	 SIGFPE,    SIGSEGV, SIGPIPE, SIGALRM,
	SIGTERM, SIGUSR1, SIGUSR2, SIGSTKFLT, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR,  SIGSYS,
};

static _Atomic uint64_t begun;      /* when the first fatal signal came */
static _Atomic uint32_t dying;      /* on which thread */
static _Atomic uint64_t asked_last; /* when the exit signal came */
static int exit_signal;
static atomic_int owed; /* a signal that is still to kill: its thread was let go, see leave */

/* Made by what the thread itself did: the CPU, the kernel in its name, abort or raise. */
static bool own_fault(int sig, const siginfo_t *info)
{
	if (info->si_code == SI_TKILL)
		return info->si_pid == ct_self();
	return info->si_code > 0 && (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL ||
				     sig == SIGTRAP || sig == SIGSYS);
}

static void on_fatal(int sig, siginfo_t *info, void *context);

/*
 * Has the signal come again with its default action: when the handler returns or,
 * where the program's own handler has called this one, at once. Where a sandbox does not
 * let that happen, the program ends with the exit code that a shell shows for the signal.
 */
static void die(int sig, siginfo_t *info)
{
	struct sigaction none = {.sa_handler = SIG_DFL}, was;
	sigset_t it;
	sigemptyset(&it);
	sigaddset(&it, sig);
	if (sigaction(sig, &none, &was) != 0)
		_exit(128 + sig);
	bool direct = was.sa_sigaction == on_fatal;
	pthread_sigmask(direct ? SIG_BLOCK : SIG_UNBLOCK, &it, NULL); /* until the return */
	pid_t pid = ct_ours() ? ct_self() : getpid();
	pid_t tid = (pid_t)ct_tid();
	if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, sig, info) != 0 && syscall(SYS_tgkill, pid, tid, sig) != 0 &&
	    (pid <= 0 || kill(pid, sig) != 0))
		_exit(128 + sig);
}

/* What is to be done about a signal: the first is waited for, a second is not. */
static enum { HAND_OVER, DIE, NOTHING } judge(int sig, const siginfo_t *info)
{
	uint64_t first = 0, now = ct_now();
	uint32_t tid = ct_tid();
	if (getpid() == 1 && info->si_code <= 0)
		return NOTHING; /* as the kernel has it for the first process of a container */
	if (atomic_compare_exchange_strong(&begun, &first, now)) {
		atomic_store(&dying, tid);
		return HAND_OVER;
	}
	if (own_fault(sig, info)) /* threads tend to crash together */
		return atomic_load(&dying) == tid ? DIE : HAND_OVER;
	return now < first + TWIN ? NOTHING : DIE;
}

static uintptr_t program_counter(const ucontext_t *u)
{
#ifdef __x86_64__
	return (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
#else
	return (uintptr_t)u->uc_mcontext.pc;
#endif
}

/*
 * Whether a signal from outside came between two instructions of the program, and
 * not during a system call, which would end with EINTR when the handler returns.
 */
static bool between_instructions(const ucontext_t *u)
{
#ifdef __x86_64__
	uint64_t result = (uint64_t)u->uc_mcontext.gregs[REG_RAX];
	static const unsigned char call[] = {0x0f, 0x05};
#else
	uint64_t result = u->uc_mcontext.regs[0];
	static const unsigned char call[] = {0x01, 0x00, 0x00, 0xd4};
#endif
	uintptr_t pc = program_counter(u);
	if (result != (uint64_t)-EINTR)
		return true;
	return (pc & 4095) >= sizeof call && memcmp((const void *)(pc - sizeof call), call, sizeof call) != 0;
}

/* Takes a handler away, if it is there. The program may install its own at that moment. */
static void give_back(int sig, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction none = {.sa_handler = SIG_DFL}, was;
	if (sigaction(sig, NULL, &was) == 0 && was.sa_sigaction == handler && sigaction(sig, &none, &was) == 0 &&
	    was.sa_sigaction != handler)
		sigaction(sig, &was, NULL);
}

/* A handover is over: the signal that brought it may kill now. */
static void send_owed(void)
{
	int sig = atomic_exchange(&owed, 0);
	if (sig == 0)
		return;
	give_back(sig, on_fatal);
	if (kill(ct_self(), sig) != 0)
		_exit(128 + sig);
}

/*
 * The thread goes on as if the signal came later, since it may hold a lock that the
 * handover needs. The control thread sends the signal again after the handover; a timer
 * does if that never ends. False without a timer: the thread has to wait then.
 */
static bool leave(int sig)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig};
	struct itimerspec once = {.it_value = {.tv_sec = CT_STALL / CT_SECOND, .tv_nsec = CT_STALL % CT_SECOND}};
	int timer;
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) != 0 ||
	    syscall(SYS_timer_settime, timer, 0, &once, NULL) != 0)
		return false;
	atomic_store(&owed, sig);
	if (!ct_handover_wanted())
		send_owed();
	return true;
}

/* Such moments are short: the thread that makes variables new takes no signals. */
static bool come_in(void)
{
	for (int i = 0; i < 1000; i++) {
		if (ct_come_in())
			return true;
		ct_pause(CT_MS);
	}
	return false;
}

static void on_fatal(int sig, siginfo_t *info, void *context)
{
	if ((info->si_code > 0 && ct_guard_leave(context)) || (sig == SIGTRAP && info->si_code == BREAKPOINT))
		return;
	int kept = errno;
	bool in = ct_ours() && come_in();
	int what = in ? (int)judge(sig, info) : DIE;
	bool may_leave = what == HAND_OVER && !own_fault(sig, info) && between_instructions(context);
	bool may_die = what != HAND_OVER || ct_handover(CT_BYE_SIGNAL, (uint32_t)sig, may_leave);
	if (!may_die && !leave(sig))
		may_die = ct_handover(CT_BYE_SIGNAL, (uint32_t)sig, false);
	if (what != NOTHING && may_die)
		die(sig, info);
	if (in)
		ct_go_out();
	errno = kept;
}

/* The recorder's signals come from the kernel. Those of other senders change nothing, so they may be held back. */
static void on_exit_signal(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	if (!ct_ours() || !come_in())
		return;
	uint64_t now = ct_now(), last = atomic_exchange(&asked_last, now);
	if (info->si_code == SI_KERNEL || now > last + EXIT_PAUSE)
		ct_handover(CT_BYE_ASKED, 0, false);
	ct_go_out();
}

/* Installs a handler where there is none or still ours; false where there is, or the program ignores the signal. */
static bool take(int sig, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction ours = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | flags}, was;
	sigemptyset(&ours.sa_mask);
	if (sigaction(sig, NULL, &was) != 0)
		return false;
	if (was.sa_sigaction == handler) /* see ct_signals_end */
		return true;
	if (was.sa_handler != SIG_DFL || sigaction(sig, &ours, &was) != 0)
		return false;
	if (was.sa_handler == SIG_DFL)
		return true;
	sigaction(sig, &was, NULL); /* another thread was quicker */
	return false;
}

static bool traps;

/* For package door, which sets breakpoints only where their signal is caught. */
void ct_signals_trap(void)
{
	traps = true;
	take(SIGTRAP, on_fatal, SA_NODEFER);
}

void ct_signals_start(void)
{
	ct_handover_on_release(send_owed);
	for (size_t i = 0; i < sizeof fatal; i++)
		take(fatal[i], on_fatal, SA_NODEFER);
	int sig = SIGURG, tries = 0;
	while (!take(sig, on_exit_signal, SA_RESTART)) {
		if (tries == REALTIME_TRIES)
			return;
		sig = REALTIME_FIRST - tries++;
	}
	exit_signal = sig;
}

/*
 * Recording is over. A real-time exit signal keeps its handler, which does nothing
 * any more: one may still be on its way, and would kill. So may the trap of a breakpoint of a recorder that dies now:
 * one that leaves sets none any more.
 */
void ct_signals_end(void)
{
	bool trapped = traps && !ct_link_await_left(ct_now() + LEFT_WAIT);
	for (size_t i = 0; i < sizeof fatal; i++)
		if (fatal[i] != SIGTRAP || !trapped)
			give_back(fatal[i], on_fatal);
	if (exit_signal == SIGURG)
		give_back(SIGURG, on_exit_signal);
}

/* The signal for the recorder and the address of its handler; 0 without one. */
uint32_t ct_signals_exit(uint64_t *handler)
{
	*handler = exit_signal ? (uint64_t)(uintptr_t)on_exit_signal : 0;
	return (uint32_t)exit_signal;
}
