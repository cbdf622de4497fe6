/* The code that nvcc would generate around kernels: a host stub per kernel, whose symbol
 * is the kernel's mangled name, an image, and a constructor that registers
 * both. */
#ifndef SIM_PROG_KERNELS_H
#define SIM_PROG_KERNELS_H

#include <stdio.h>
#include <stdlib.h>

#include "../include/cudart_sim.h"

/* Declares the host stub of a kernel; its address names the kernel. */
#define KERNEL_STUB(stub, mangled) \
	void stub(void) __asm__(mangled); \
	void stub(void) \
	{ \
		__asm__ volatile("" ::"r"(&stub)); \
	}

struct stub {
	void (*host)(void);
};

/* The image of a program: kernels[i] is launched through stubs[i]. */
#define REGISTER_KERNELS(kernels, stubs) \
	static const struct sim_image image_ = { \
		.magic = SIM_IMAGE_MAGIC, .count = sizeof(kernels) / sizeof *(kernels), .kernels = kernels, \
	}; \
	static struct sim_fatbin fatbin_ = {SIM_FATBIN_MAGIC, 1, &image_, NULL}; \
	static void **fatbin_handle_; \
	__attribute__((constructor)) static void register_kernels_(void) \
	{ \
		fatbin_handle_ = __cudaRegisterFatBinary(&fatbin_); \
		for (uint32_t i = 0; i < image_.count; i++) \
			__cudaRegisterFunction(fatbin_handle_, (const char *)(uintptr_t)(stubs)[i].host, \
					       (char *)(uintptr_t)image_.kernels[i].name, image_.kernels[i].name, -1, NULL, \
					       NULL, NULL, NULL, NULL); \
		__cudaRegisterFatBinaryEnd(fatbin_handle_); \
	} \
	__attribute__((destructor)) static void unregister_kernels_(void) \
	{ \
		__cudaUnregisterFatBinary(fatbin_handle_); \
	}

static inline const void *host_address(struct stub s)
{
	return (const void *)(uintptr_t)s.host;
}

#define CHECK(call) check((call), #call)
static inline void check(cudaError_t error, const char *call)
{
	if (error) {
		fprintf(stderr, "%s: %s\n", call, cudaGetErrorName(error));
		exit(1);
	}
}

#endif
