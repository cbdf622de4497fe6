/* cudaProfilerStart and cudaProfilerStop around the middle part of its work. */
#include "options.h"
#include "work.h"

int main(int argc, char **argv)
{
	long n = option_number(argc, argv, "-n", 100, 1);
	struct counts outside = {0, 0, 0}, inside = {0, 0, 0};
	int bad = work_all(&outside, n);
	CHECK(cudaProfilerStart());
	bad += work_all(&inside, n);
	CHECK(cudaProfilerStop());
	bad += work_all(&outside, n);
	counts_print("counts", counts_add(outside, inside));
	counts_print("inside", inside);
	return bad != 0;
}
