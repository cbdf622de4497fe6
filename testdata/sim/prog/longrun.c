/* Launches a kernel every 2 ms for some seconds, or until SIGTERM or SIGINT. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "work.h"

static volatile sig_atomic_t stop;

static void stopped(int signal)
{
	(void)signal;
	stop = 1;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	char *end = NULL;
	double seconds = argc > 1 ? strtod(argv[1], &end) : 0;
	if (!end || end == argv[1] || *end || seconds < 0) {
		fprintf(stderr, "usage: longrun SECONDS\n");
		return 2;
	}
	struct sigaction action = {.sa_handler = stopped};
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	struct work w;
	work_begin(&w);
	printf("longrun: pid %d\n", (int)getpid());
	fflush(stdout);
	for (double until = now() + seconds; !stop && now() < until;) {
		work_launch(&w, 1);
		usleep(2000);
	}
	int bad = work_end(&w);
	counts_print("counts", w.issued);
	return bad;
}
