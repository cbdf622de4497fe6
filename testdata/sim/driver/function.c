/* Attributes and occupancy of a kernel. */
#include "internal.h"

#define SM_THREADS 2048
#define SM_BLOCKS 32
#define SM_SHARED 233472 /* bytes */
#define SM_REGISTERS 65536
#define BLOCK_THREADS 1024

/* CUfunction_attribute */
enum {
	MAX_THREADS, SHARED, CONST, LOCAL, REGISTERS, PTX, BINARY, CACHE_CA, MAX_DYNAMIC_SHARED, CARVEOUT,
	ATTRIBUTES = 16,
};

static CUresult get(int *out, int attribute, CUfunction f)
{
	if (!out || attribute < 0 || attribute >= ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_function_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	const int values[ATTRIBUTES] = {
		[MAX_THREADS] = BLOCK_THREADS, [SHARED] = (int)f->kernel->static_shared,
		[LOCAL] = (int)f->kernel->local_per_thread, [REGISTERS] = (int)f->kernel->registers, [PTX] = 90, [BINARY] = 90,
		[MAX_DYNAMIC_SHARED] = f->dynamic_shared, [CARVEOUT] = f->carveout,
	};
	*out = values[attribute];
	return CUDA_SUCCESS;
}

static int lesser(int a, int b)
{
	return a < b ? a : b;
}

/* Blocks of the kernel that one multiprocessor holds at a time. */
static int blocks(CUfunction f, int threads, size_t dynamic)
{
	int warps = (threads + 31) / 32, n = lesser(SM_BLOCKS, SM_THREADS / (warps * 32));
	size_t shared = f->kernel->static_shared + dynamic;
	if (f->kernel->registers)
		n = lesser(n, SM_REGISTERS / ((int)f->kernel->registers * warps * 32));
	return shared ? lesser(n, (int)(SM_SHARED / shared)) : n;
}

static CUresult active(int *out, CUfunction f, int threads, size_t dynamic)
{
	if (!sim_function_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out || threads < 1 || threads > BLOCK_THREADS)
		return CUDA_ERROR_INVALID_VALUE;
	*out = blocks(f, threads, dynamic);
	return CUDA_SUCCESS;
}

DRIVER(cuFuncGetAttribute, (int *out, int attribute, CUfunction f), get(out, attribute, f))
DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *out, CUfunction f, int threads, size_t dynamic),
       active(out, f, threads, dynamic))
