/*
 * Launches kernels for some seconds, or until SIGTERM or SIGINT. With --until on or
 * --until off it ends a hundred launches after kernel records went on, or off again.
 * It prints the least and the largest possible number of its launches that have a record.
 */
#include <dlfcn.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "work.h"

#define AFTER 100 /* launches after the records were switched */

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

/* Whether the simulated CUPTI makes records of kernels. */
static bool recorded(void)
{
	static int (*on)(void);
	void *cupti = on ? NULL : dlopen("libcupti.so.13", RTLD_LAZY | RTLD_NOLOAD);
	if (cupti)
		*(void **)&on = dlsym(cupti, "cudasim_kernels_recorded");
	return on && on();
}

static struct {
	long least, most; /* launches that certainly, and possibly, have a record */
	long on, off;     /* launches since records went on, since they went off again */
} seen;

static void launch(struct work *w)
{
	bool before = recorded();
	work_launch(w, 1);
	bool after = recorded();
	seen.least += before && after;
	seen.most += before || after;
	seen.on += seen.on || after;
	seen.off = after ? 0 : seen.off + (seen.on > 0);
}

static bool enough(const char *until)
{
	return (!strcmp(until, "on") && seen.on > AFTER) || (!strcmp(until, "off") && seen.off > AFTER);
}

static void run(struct work *w, double seconds, const char *until, useconds_t pause)
{
	for (double end = now() + seconds; !stop && now() < end && !enough(until);) {
		launch(w);
		if (pause > 0)
			usleep(pause);
	}
}

int main(int argc, char **argv)
{
	char *end = NULL;
	double seconds = argc > 1 ? strtod(argv[1], &end) : 0;
	if (!end || end == argv[1] || *end || seconds < 0) {
		fprintf(stderr, "usage: longrun SECONDS [--until on | --until off] [-i MICROSECONDS]\n");
		return 2;
	}
	struct sigaction action = {.sa_handler = stopped};
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	struct work w;
	work_begin(&w);
	printf("longrun: pid %d\n", (int)getpid());
	fflush(stdout);
	run(&w, seconds, option_text(argc, argv, "--until", ""), (useconds_t)option_number(argc, argv, "-i", 2000, 0));
	int bad = work_end(&w);
	printf("recorded least=%ld most=%ld\n", seen.least, seen.most);
	counts_print("counts", w.issued);
	return bad;
}
