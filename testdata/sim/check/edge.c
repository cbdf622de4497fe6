/* Ends in the unusual way that its first argument names. */
#include <sys/wait.h>
#include <unistd.h>

#include "../prog/kernels.h"

KERNEL_STUB(endless, "_Z7endlessv")
static const struct sim_kernel kernels[] = {{"_Z7endlessv", NULL, 8, 0, 0, 3600000000000, 0, {0}}};
static const struct stub stubs[] = {{endless}};
REGISTER_KERNELS(kernels, stubs)

static const dim3 one = {1, 1, 1};

/* Leaves main while a kernel of an hour runs. */
static int running(void)
{
	CHECK(cudaLaunchKernel(host_address(stubs[0]), one, one, NULL, 0, NULL));
	usleep(20000);
	return 0;
}

/* A forked child cannot use CUDA, and gets the error for that. */
static int forked(void)
{
	void *p;
	int status = 0;
	CHECK(cudaMalloc(&p, 4096));
	pid_t child = fork();
	if (child == 0)
		_exit(cudaMalloc(&p, 4096) == cudaErrorInitializationError && cudaDeviceSynchronize() ? 0 : 1);
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		return 1;
	CHECK(cudaFree(p));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && argv[1][0] == 'r')
		return running();
	if (argc == 2 && argv[1][0] == 'f')
		return forked();
	fprintf(stderr, "usage: edge running|forked\n");
	return 2;
}
