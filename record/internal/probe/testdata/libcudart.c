/* A stand-in for libcudart: CUDA's names and prototypes, no GPU. */
#include <stddef.h>
#include <stdint.h>

__attribute__((weak)) void during_call(uintptr_t stream);

struct dims {
	unsigned x, y, z;
};
struct extent {
	size_t width, height, depth;
};
struct pitched {
	void *ptr;
	size_t pitch, xsize, ysize;
};
struct handle {
	char reserved[64];
};
struct location {
	int type, id;
};

/* Refuses a launch of no kernel, without a word to the driver. */
int cudaLaunchKernel(const void *f, struct dims grid, struct dims block, void **args, size_t shared, uintptr_t stream)
{
	(void)grid, (void)block, (void)args, (void)shared;
	if (!f && during_call)
		during_call(stream);
	return f ? 0 : 98;
}

int __cudaLaunchKernel(uintptr_t f, struct dims grid, struct dims block, void **args, size_t shared, uintptr_t stream)
{
	(void)f, (void)grid, (void)block, (void)args, (void)shared, (void)stream;
	return 0;
}

int cudaMemset3DAsync(struct pitched to, int value, struct extent size, uintptr_t stream)
{
	(void)to, (void)value, (void)size, (void)stream;
	return 0;
}

int cudaMalloc3D(struct pitched *out, struct extent size)
{
	out->ptr = (void *)0x77000;
	out->pitch = size.width * 2;
	return 0;
}

int cudaIpcOpenMemHandle(void **out, struct handle handle, unsigned flags)
{
	*out = (void *)(uintptr_t)(0x88000 + handle.reserved[63]);
	return (int)flags == 99;
}

int cudaMemAdvise_v2(const void *at, size_t bytes, int advice, struct location location)
{
	(void)at, (void)bytes, (void)advice, (void)location;
	return 0;
}

int cudaEventElapsedTime(float *ms, uintptr_t start, uintptr_t end)
{
	*ms = 1.5f + (float)(end - start);
	return 0;
}

int cuProfilerStart(void);
int cuProfilerStop(void);

int cudaProfilerStart(void)
{
	return cuProfilerStart() + 0;
}

int cudaProfilerStop(void)
{
	return cuProfilerStop() + 0;
}

int cudaMalloc(void **out, size_t bytes)
{
	if (bytes == 0)
		return 2;
	*out = (void *)(0x9000000000ull + bytes);
	return 0;
}

int cudaGetDevice(int *device)
{
	*device = -3;
	return 0;
}

int cudaStreamSynchronize(uintptr_t stream)
{
	if (during_call)
		during_call(stream);
	return 0;
}

/* Calls another function by a jump, as compilers do for a call in tail position. */
__attribute__((optimize("O2"))) int cudaDeviceSynchronize(void)
{
	return cudaStreamSynchronize(0);
}
