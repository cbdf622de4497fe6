/* Launches a kernel that the image of the program lacks: the runtime asks the driver once, and
 * refuses every launch. With --threads the kernel is there, and the launches have too many threads in a block.
 * With -l it launches another one before; with --exec it runs itself between the two. */
#include <unistd.h>

#include "options.h"
#include "work.h"

KERNEL_STUB(missing, "_Z7missingv") /* void missing() */

static long refused_launches(long n, bool threads)
{
	dim3 one = {1, 1, 1}, block = {threads ? 2048 : 1, 1, 1};
	const void *kernel = threads ? host_address(stubs[0]) : (const void *)(uintptr_t)missing;
	long refused = 0;
	for (long i = 0; i < n; i++)
		refused += cudaLaunchKernel(kernel, one, block, NULL, 0, NULL) != cudaSuccess;
	return refused;
}

int main(int argc, char **argv)
{
	long n = option_number(argc, argv, "-n", 100, 1), launched = option_number(argc, argv, "-l", 0, 0);
	struct work w = {0};
	__cudaRegisterFunction(fatbin_handle_, (const char *)(uintptr_t)missing, "_Z7missingv", "_Z7missingv", -1, NULL, NULL, NULL, NULL,
			       NULL);
	if (launched) {
		work_begin(&w);
		work_launch(&w, launched);
		if (work_end(&w))
			return 1;
	}
	if (launched && option_flag(argc, argv, "--exec")) {
		char refused[24];
		snprintf(refused, sizeof refused, "%ld", n);
		execl("/proc/self/exe", argv[0], "-n", refused, NULL);
		return 1;
	}
	printf("refused %ld\n", refused_launches(n, option_flag(argc, argv, "--threads")));
	counts_print("counts", w.issued);
	return 0;
}
