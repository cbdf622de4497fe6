/* A simulated code image, in place of a cubin. cuModuleLoadData,
 * cuLibraryLoadData and the data pointer of __cudaRegisterFatBinary's wrapper
 * take a pointer to a sim_image. */
#ifndef SIM_IMAGE_H
#define SIM_IMAGE_H

#include <stdint.h>

#define SIM_IMAGE_MAGIC 0x53494d43u /* "CMIS" */
#define SIM_MAX_PARAMS 16
#define SIM_MAX_GLOBALS 16

/* The shape of one launch, handed to a kernel's host function. */
struct sim_launch {
	uint32_t grid[3], block[3], cluster[3];
	uint32_t dynamic_shared;
};

/* A kernel's body, run once per launch (not once per thread). args points to a
 * copy of each parameter, as the kernelParams of cuLaunchKernel do. */
typedef void (*sim_body)(void **args, const struct sim_launch *launch);

/* As the ns of a kernel: the body gets the start in the first parameter, a uint64_t, and leaves the end there. The GPU waits for the body. */
#define SIM_BODY_ENDS UINT64_MAX

struct sim_kernel {
	const char *name; /* mangled */
	sim_body body;    /* may be NULL: a kernel that only takes time */
	uint32_t registers, static_shared, local_per_thread;
	uint64_t ns;      /* simulated duration; 0: CUDASIM_KERNEL_NS */
	uint32_t params;
	uint32_t param_size[SIM_MAX_PARAMS]; /* bytes */
};

/* A variable of the device. */
struct sim_global {
	const char *name;
	uint64_t size;
};

struct sim_image {
	uint32_t magic;
	uint32_t count;
	const struct sim_kernel *kernels;
	uint32_t global_count; /* at most SIM_MAX_GLOBALS */
	const struct sim_global *globals;
};

/* The wrapper that nvcc's generated code hands to __cudaRegisterFatBinary. */
#define SIM_FATBIN_MAGIC 0x466243b1u
struct sim_fatbin {
	uint32_t magic, version;
	const struct sim_image *data;
	void *unused;
};

#endif
