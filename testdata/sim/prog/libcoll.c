#define WORK_KERNEL "_ZN4coll6reduceEPf" /* coll::reduce(float *) */
#include "libcoll.h"
#include "work.h"

#define EXPORT __attribute__((visibility("default")))

static struct work work;
static int size;

EXPORT int collInit(int ranks)
{
	size = ranks;
	work_begin(&work);
	return 0;
}

EXPORT int collAllReduce(const void *from, void *to, size_t count)
{
	if (!from || !to || !count || !size)
		return 4;
	work_launch(&work, 1);
	return 0;
}

EXPORT int collFinish(struct counts *total)
{
	*total = counts_add(*total, work.issued);
	return work_end(&work);
}
