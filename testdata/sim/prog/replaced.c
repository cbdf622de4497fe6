/* Uses CUDA, then runs itself in its own place, GENERATIONS times: by another thread than its first, which
 * has used CUDA too, and by the first, by turns. With -w each program initialises CUDA, says "ready" and waits for a line first. */
#include <pthread.h>

#include "children.h"
#include "work.h"

static struct {
	struct counts issued;
	long launches;
	char *args[7];
	int bad;
} own;

static void run_again(void)
{
	own.bad += work_all(&own.issued, own.launches);
	child_print(own.issued);
	fflush(stdout);
	if (!own.bad)
		execv("/proc/self/exe", own.args);
	perror("exec");
	exit(1);
}

static void *by_another_thread(void *unused)
{
	run_again();
	return unused;
}

int main(int argc, char **argv)
{
	long generations = option_number(argc, argv, "-g", 2, 0);
	char after[24], launches[24];
	pthread_t thread;

	own.launches = option_number(argc, argv, "-n", 100, 1);
	snprintf(after, sizeof after, "%ld", generations - 1);
	snprintf(launches, sizeof launches, "%ld", own.launches);
	char *args[] = {argv[0], "-n", launches, "-g", after, option_flag(argc, argv, "-w") ? "-w" : NULL, NULL};
	memcpy(own.args, args, sizeof args);
	if (option_flag(argc, argv, "-w")) {
		char line[8];
		own.bad = cudaFree(NULL) != cudaSuccess;
		puts("ready");
		fflush(stdout);
		if (read(0, line, sizeof line) <= 0)
			return 1;
	}
	own.bad += work_all(&own.issued, own.launches);
	if (generations % 2 == 1)
		run_again();
	if (generations > 0 && pthread_create(&thread, NULL, by_another_thread, NULL) == 0)
		pthread_join(thread, NULL);
	child_print(own.issued);
	return own.bad != 0;
}
