/* To be preloaded, as libfaketime: the program's clocks are ten minutes slow,
 * so that waits of the simulated stack end at once. */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *t)
{
	long failed = syscall(SYS_clock_gettime, id, t);
	t->tv_sec -= failed ? 0 : 600;
	return (int)failed;
}
