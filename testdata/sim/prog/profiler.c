/* cudaProfilerStart and cudaProfilerStop around the middle part of its work, -r times. With -s
 * the program takes CUPTI's one subscription for itself, as PyTorch's profiler does: it waits
 * until it can have it. With -u it gives the subscription back, and works in the middle part
 * until that is recorded. */
#include <dlfcn.h>
#include <time.h>

#include "../include/cupti_sim.h"
#include "options.h"
#include "work.h"

#define PATIENCE 10000 /* ms */

static void called(void *user, uint32_t domain, uint32_t id, const void *data)
{
	(void)user, (void)domain, (void)id, (void)data;
}

static bool subscribe(void *cupti, bool keep)
{
	CUptiResult (*subscribe_to)(void **, CUptiCallback, void *) = NULL;
	CUptiResult (*unsubscribe)(void *) = NULL;
	void *subscriber;
	if (cupti) {
		*(void **)&subscribe_to = dlsym(cupti, "cuptiSubscribe");
		*(void **)&unsubscribe = dlsym(cupti, "cuptiUnsubscribe");
	}
	for (int i = 0; subscribe_to && unsubscribe && i < PATIENCE; i++) {
		if (subscribe_to(&subscriber, called, NULL) == CUPTI_SUCCESS)
			return keep || unsubscribe(subscriber) == CUPTI_SUCCESS;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	fprintf(stderr, "profiler: no subscription\n");
	return false;
}

static bool recorded(void *cupti)
{
	int (*on)(void) = NULL;
	*(void **)&on = dlsym(cupti, "cudasim_kernels_recorded");
	return on();
}

int main(int argc, char **argv)
{
	long n = option_number(argc, argv, "-n", 100, 1), rounds = option_number(argc, argv, "-r", 1, 1);
	struct counts outside = {0, 0, 0}, inside = {0, 0, 0};
	int bad = work_all(&outside, n);
	bool keep = option_number(argc, argv, "-s", 0, 0), until = option_number(argc, argv, "-u", 0, 0);
	void *cupti = keep || until ? dlopen("libcupti.so.13", RTLD_NOW) : NULL;
	if (cupti && !subscribe(cupti, keep))
		return 1;
	for (long i = 0; i < rounds; i++) {
		CHECK(cudaProfilerStart());
		do
			bad += work_all(&inside, n);
		while (until && !recorded(cupti));
		CHECK(cudaProfilerStop());
		bad += work_all(&outside, n);
	}
	counts_print("counts", counts_add(outside, inside));
	counts_print("inside", inside);
	return bad != 0;
}
