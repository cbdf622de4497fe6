/* Named threads that launch and end before the program does; with --together none ends before all have launched. CUDA
 * is initialised before they start, with --race by the one that comes first, while others wait for it. */
#include <pthread.h>

#include "options.h"
#include "work.h"

struct worker {
	pthread_t thread;
	int index, bad;
	long launches;
	struct counts issued;
};

static pthread_barrier_t barrier;
static bool together;

static void *run(void *arg)
{
	struct worker *w = arg;
	char name[16];
	snprintf(name, sizeof name, "worker %d", w->index);
	pthread_setname_np(pthread_self(), name);
	if (together)
		pthread_barrier_wait(&barrier);
	w->bad = work_all(&w->issued, w->launches);
	if (together)
		pthread_barrier_wait(&barrier);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[1024];
	long count = option_number(argc, argv, "-t", 8, 1);
	struct counts total = {0, 0, 0};
	int bad = 0, devices;
	if (count > (long)(sizeof workers / sizeof *workers)) {
		fprintf(stderr, "threads: at most %zu threads\n", sizeof workers / sizeof *workers);
		return 2;
	}
	if (!option_flag(argc, argv, "--race"))
		CHECK(cudaGetDeviceCount(&devices));
	together = option_flag(argc, argv, "--together");
	pthread_barrier_init(&barrier, NULL, (unsigned)count);
	for (int i = 0; i < count; i++) {
		workers[i].index = i;
		workers[i].launches = option_number(argc, argv, "-n", 1000, 1);
		if (pthread_create(&workers[i].thread, NULL, run, &workers[i])) {
			fprintf(stderr, "threads: cannot start thread %d of %ld\n", i + 1, count);
			return 1;
		}
	}
	for (int i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		total = counts_add(total, workers[i].issued);
		bad += workers[i].bad;
	}
	counts_print("counts", total);
	return bad != 0;
}
