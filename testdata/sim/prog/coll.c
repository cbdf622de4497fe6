/*
 * Steps that launch and reduce, by a library of their own. The last reduction of each step fails. A thread checks meanwhile,
 * and makes no call of CUDA.
 */
#include <pthread.h>

#include "libcoll.h"
#include "options.h"
#include "work.h"

static struct work own;
static float gradient[1024];

long check_gradient(long at);
int train_step(long number, long reductions);

__attribute__((noinline)) long check_gradient(long at)
{
	__asm__ volatile("" ::"r"(gradient), "r"(at));
	return at % 1024;
}

static void *checker(void *steps)
{
	for (long i = 0; i < *(long *)steps; i++)
		check_gradient(i);
	return NULL;
}

__attribute__((noinline)) int train_step(long number, long reductions)
{
	int bad = 0;

	(void)number;
	work_launch(&own, 1);
	for (long i = 0; i < reductions; i++)
		bad += collAllReduce(gradient, gradient, i + 1 < reductions ? 1024 : 0) != 0;
	return bad;
}

int main(int argc, char **argv)
{
	long steps = option_number(argc, argv, "-n", 5, 1), reductions = option_number(argc, argv, "-r", 3, 1);
	struct counts total = {0, 0, 0};
	pthread_t thread;
	long failed = 0;

	work_begin(&own);
	collInit(8);
	if (pthread_create(&thread, NULL, checker, &steps))
		return 1;
	for (long i = 0; i < steps; i++)
		failed += train_step(i, reductions);
	pthread_join(thread, NULL);
	int bad = collFinish(&total) + work_end(&own);
	total = counts_add(total, own.issued);
	counts_print("counts", total);
	printf("coll failed=%ld\n", failed);
	return bad != 0;
}
