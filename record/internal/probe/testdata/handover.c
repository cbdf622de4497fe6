/* What an injected library brings: a handler of the exit signal, and one for signals that kill. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

volatile int asked;
volatile int asked_thread;

void hand_over(int signal)
{
	static const char text[] = "asked\n";

	(void)signal;
	asked++;
	asked_thread = (int)syscall(SYS_gettid);
	if (write(1, text, sizeof(text) - 1) < 0)
		asked = -1;
}

void fatal(int signal)
{
	static const char text[] = "library\n";

	if (write(1, text, sizeof(text) - 1) < 0)
		asked = -1;
	syscall(SYS_exit_group, 128 + signal);
}
