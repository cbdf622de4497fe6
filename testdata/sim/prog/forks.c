/* Four threads launch until standard input ends, while another one has children without pause: by fork, which ends at
 * once, by posix_spawn and by vfork, which run another program. */
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

static _Atomic bool over;
static int bad;
static struct counts issued[4];
static char *const nothing[] = {"true", NULL};

static void *launch(void *arg)
{
	struct work w;
	work_begin(&w);
	while (!over) {
		work_launch(&w, 10);
		usleep(100);
	}
	int failed = work_end(&w);
	*(struct counts *)arg = w.issued;
	return failed ? arg : NULL;
}

static void await(pid_t child, int code)
{
	int status;
	bad += child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != code;
}

static void *have_children(void *arg)
{
	while (!over) {
		pid_t child = fork();
		if (child == 0)
			_exit(7);
		await(child, 7);
		child = -1;
		posix_spawn(&child, "/bin/true", NULL, NULL, nothing, NULL);
		await(child, 0);
		child = vfork();
		if (child == 0) {
			execv("/bin/true", nothing);
			_exit(1);
		}
		await(child, 0);
		usleep(5000);
	}
	return arg;
}

int main(void)
{
	pthread_t threads[4], parent;
	void *failed;
	struct counts total = {0, 0, 0};
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, launch, &issued[i]);
	pthread_create(&parent, NULL, have_children, NULL);
	while (getchar() != EOF)
		;
	over = true;
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &failed);
		bad += failed != NULL;
		total = counts_add(total, issued[i]);
	}
	pthread_join(parent, NULL);
	printf("forks: wrong %d, copies %ld\n", bad, total.copies);
	return bad ? 1 : 9;
}
