/* A stand-in for libcudart: CUDA's names and prototypes, no GPU. */
#include <stddef.h>
#include <stdint.h>

__attribute__((weak)) void during_call(uintptr_t stream);

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
