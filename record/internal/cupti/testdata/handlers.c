/* The program installs a handler of its own in the moment in which ours goes: it stays. */
#include <signal.h>
#include <stdlib.h>

static int races; /* the program's handler comes behind the next look at the action of a signal */

static void theirs(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
}

static const struct sigaction program = {.sa_sigaction = theirs, .sa_flags = SA_SIGINFO};

static int action(int sig, const struct sigaction *to, struct sigaction *was)
{
	int result = sigaction(sig, to, was);
	if (!to && races)
		races = 0, sigaction(sig, &program, NULL);
	return result;
}

#define sigaction(...) action(__VA_ARGS__)
#include "signals.c"
#undef sigaction

pid_t ct_self(void) { return getpid(); }
bool ct_ours(void) { return true; }
bool ct_come_in(void) { return true; }
void ct_go_out(void) {}
void ct_pause(uint64_t ns) { (void)ns; }
uint64_t ct_now(void) { return 0; }
uint32_t ct_tid(void) { return (uint32_t)syscall(SYS_gettid); }
bool ct_guard_leave(void *context) { return context == NULL; }
bool ct_handover(uint32_t reason, uint32_t detail, bool may_leave) { return reason + detail > 0 || may_leave; }
bool ct_handover_wanted(void) { return false; }
void ct_handover_on_release(void (*f)(void)) { (void)f; }
bool ct_link_await_left(uint64_t deadline) { return deadline > 0; }

static bool is(int sig, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction now;
	return sigaction(sig, NULL, &now) == 0 && now.sa_sigaction == handler;
}

int main(void)
{
	if (!take(SIGTERM, on_fatal, 0) || !take(SIGINT, on_fatal, 0) || !is(SIGTERM, on_fatal))
		return 1;
	races = 1;
	give_back(SIGTERM, on_fatal);
	give_back(SIGINT, on_fatal);
	if (!is(SIGTERM, theirs) || is(SIGINT, on_fatal))
		return 2;
	races = 1;
	return take(SIGHUP, on_fatal, 0) || !is(SIGHUP, theirs) ? 3 : 0;
}
