/* Launches as programs of CUDA 13's nvcc do: by a function of the runtime that jumps to cudaLaunchKernel. */
#define WORK_LAUNCH __cudaLaunchKernel
#include "options.h"
#include "work.h"

int main(int argc, char **argv)
{
	long n = option_number(argc, argv, "-n", 200, 1);
	struct counts total = {0, 0, 0};
	int bad = work_all(&total, n);
	counts_print("counts", total);
	return bad != 0;
}
