/* Two streams in turns, by events: what is launched on the second one waits for an event of the first, and for more than that, so that it starts
 * long after the event. The first stream begins when all of it has been launched. */
#include <stdatomic.h>
#include <time.h>

#include "kernels.h"
#include "options.h"

static void nothing(void **args, const struct sim_launch *launch)
{
	(void)args;
	(void)launch;
}

KERNEL_STUB(produce, "_Z7producev")
KERNEL_STUB(other, "_Z5otherv")
KERNEL_STUB(consume, "_Z7consumev")
static const struct sim_kernel kernels[] = {
	{"_Z7producev", nothing, 8, 0, 0, 3000, 0, {0}},
	{"_Z5otherv", nothing, 8, 0, 0, 3000, 0, {0}},
	{"_Z7consumev", nothing, 8, 0, 0, 3000, 0, {0}},
};
static const struct stub stubs[] = {{produce}, {other}, {consume}};
REGISTER_KERNELS(kernels, stubs)

static void launch(int which, cudaStream_t s)
{
	dim3 one = {1, 1, 1};
	CHECK(cudaLaunchKernel(host_address(stubs[which]), one, one, NULL, 0, s));
}

static atomic_int launched;

static void until_launched(void *unused)
{
	(void)unused;
	while (!atomic_load(&launched))
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static void pause_a_while(void *unused)
{
	(void)unused;
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

int main(int argc, char **argv)
{
	long n = option_number(argc, argv, "-n", 5, 1);
	cudaStream_t first, second;
	cudaEvent_t done;
	CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
	CHECK(cudaEventCreate(&done));
	for (long i = 0; i < n; i++) {
		atomic_store(&launched, 0);
		CHECK(cudaLaunchHostFunc(first, until_launched, NULL));
		launch(0, first);
		CHECK(cudaEventRecord(done, first));
		launch(1, first);
		CHECK(cudaStreamWaitEvent(second, done, 0));
		CHECK(cudaLaunchHostFunc(second, pause_a_while, NULL));
		launch(2, second);
		atomic_store(&launched, 1);
		CHECK(cudaStreamSynchronize(second));
	}
	CHECK(cudaDeviceSynchronize());
	printf("counts kernels=%ld copies=0 sets=0\n", 3 * n);
	return 0;
}
