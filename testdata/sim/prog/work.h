/* A unit of GPU work that many programs share: a counter on the device, a kernel
 * that adds one to it, and a check that all launches ran. A file that includes
 * this has one kernel, named WORK_KERNEL. */
#ifndef SIM_PROG_WORK_H
#define SIM_PROG_WORK_H

#include "counts.h"
#include "kernels.h"

#ifndef WORK_KERNEL
#define WORK_KERNEL "_Z4tickPi" /* void tick(int *) */
#endif

#ifndef WORK_LAUNCH
#define WORK_LAUNCH cudaLaunchKernel
#endif

static inline void tick_body(void **args, const struct sim_launch *launch)
{
	(void)launch;
	**(int **)args[0] += 1;
}

KERNEL_STUB(tick, WORK_KERNEL)
static const struct sim_kernel kernels[] = {{WORK_KERNEL, tick_body, 10, 0, 0, 0, 1, {8}}};
static const struct stub stubs[] = {{tick}};
REGISTER_KERNELS(kernels, stubs)

struct work {
	int *cell; /* on the device */
	cudaStream_t stream;
	struct counts issued;
};

/* Prepares a stream, with one allocation and one memset. */
static inline void work_begin(struct work *w)
{
	w->issued = (struct counts){0, 0, 0};
	CHECK(cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc((void **)&w->cell, sizeof *w->cell));
	CHECK(cudaMemsetAsync(w->cell, 0, sizeof *w->cell, w->stream));
	w->issued.sets++;
}

static inline void work_launch(struct work *w, long n)
{
	dim3 grid = {2, 1, 1}, block = {64, 1, 1};
	void *args[] = {&w->cell};
	for (long i = 0; i < n; i++, w->issued.kernels++) {
		if (w->issued.kernels % 500 == 499) /* never after the last */
			CHECK(cudaStreamSynchronize(w->stream));
		CHECK(WORK_LAUNCH(host_address(stubs[0]), grid, block, args, 0, w->stream));
	}
}

/* Copies the counter back. Returns the number of errors: 0 or 1. */
static inline int work_end(struct work *w)
{
	int ran = -1;
	CHECK(cudaMemcpyAsync(&ran, w->cell, sizeof ran, cudaMemcpyDeviceToHost, w->stream));
	w->issued.copies++;
	CHECK(cudaStreamSynchronize(w->stream));
	CHECK(cudaFree(w->cell));
	CHECK(cudaStreamDestroy(w->stream));
	if (ran == w->issued.kernels)
		return 0;
	fprintf(stderr, "%ld kernels launched, %d ran\n", w->issued.kernels, ran);
	return 1;
}

static inline int work_all(struct counts *total, long launches)
{
	struct work w;
	work_begin(&w);
	work_launch(&w, launches);
	int bad = work_end(&w);
	*total = counts_add(*total, w.issued);
	return bad;
}

#endif
