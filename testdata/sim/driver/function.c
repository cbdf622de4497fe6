/* Attributes and occupancy of a kernel. */
#include "internal.h"

#define SM_THREADS 2048
#define SM_BLOCKS 32
#define SM_SHARED 233472 /* bytes */
#define SM_REGISTERS 65536
#define SMS 132
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

static CUresult set(CUfunction f, int attribute, int value)
{
	if (!sim_function_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	if (attribute == MAX_DYNAMIC_SHARED && value >= 0 && value <= 227 * 1024)
		f->dynamic_shared = value;
	else if (attribute == CARVEOUT && value >= -1 && value <= 100)
		f->carveout = value;
	else if (attribute < MAX_DYNAMIC_SHARED || attribute >= ATTRIBUTES || attribute <= CARVEOUT)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult param(CUfunction f, size_t index, size_t *offset, size_t *size)
{
	size_t at = 0;
	if (!sim_function_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!offset || index >= f->kernel->params)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i <= index; i++) {
		size_t bytes = f->kernel->param_size[i], align = bytes && bytes < 8 ? bytes : 8;
		at = (at + align - 1) / align * align;
		*offset = at;
		at += bytes;
	}
	if (size)
		*size = f->kernel->param_size[index];
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

static CUresult potential(int *grid, int *block, CUfunction f, size_t (*dynamic_of)(int), size_t dynamic, int limit)
{
	int best = 0;
	if (!sim_function_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!grid || !block)
		return CUDA_ERROR_INVALID_VALUE;
	for (int threads = limit > 0 ? lesser(limit, BLOCK_THREADS) : BLOCK_THREADS; threads >= 32; threads -= 32) {
		int n = blocks(f, threads, dynamic_of ? dynamic_of(threads) : dynamic);
		if (n * threads > best) {
			best = n * threads;
			*block = threads;
			*grid = n * SMS;
		}
	}
	return best ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

static CUresult available(size_t *out, CUfunction f, int count, int threads)
{
	if (!sim_function_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out || count < 1 || threads < 1 || threads > BLOCK_THREADS)
		return CUDA_ERROR_INVALID_VALUE;
	size_t each = SM_SHARED / (size_t)count;
	*out = each > f->kernel->static_shared ? each - f->kernel->static_shared : 0;
	return CUDA_SUCCESS;
}

static CUresult clusters(int *out, CUfunction f, const CUlaunchConfig *c, int value)
{
	if (!sim_function_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out || !c)
		return CUDA_ERROR_INVALID_VALUE;
	*out = value;
	return CUDA_SUCCESS;
}

#define VALID(f) (sim_function_valid(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE)

DRIVER(cuFuncGetAttribute, (int *out, int attribute, CUfunction f), get(out, attribute, f))
DRIVER(cuFuncSetAttribute, (CUfunction f, int attribute, int value), set(f, attribute, value))
DRIVER(cuFuncSetCacheConfig, (CUfunction f, int config), ((void)config, VALID(f)))
DRIVER(cuFuncSetSharedMemConfig, (CUfunction f, int config), ((void)config, VALID(f)))
DRIVER(cuFuncGetParamInfo, (CUfunction f, size_t index, size_t *offset, size_t *size), param(f, index, offset, size))
DRIVER(cuFuncIsLoaded, (int *state, CUfunction f), state ? (*state = 1, VALID(f)) : CUDA_ERROR_INVALID_VALUE)
DRIVER(cuFuncLoad, (CUfunction f), VALID(f))
DRIVER(cuKernelGetAttribute, (int *out, int attribute, CUkernel k, CUdevice dev), ((void)dev, get(out, attribute, k)))
DRIVER(cuKernelSetAttribute, (int attribute, int value, CUkernel k, CUdevice dev), ((void)dev, set(k, attribute, value)))
DRIVER(cuKernelSetCacheConfig, (CUkernel k, int config, CUdevice dev), ((void)config, (void)dev, VALID(k)))
DRIVER(cuKernelGetParamInfo, (CUkernel k, size_t index, size_t *offset, size_t *size), param(k, index, offset, size))
DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *out, CUfunction f, int threads, size_t dynamic),
       active(out, f, threads, dynamic))
DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
       (int *out, CUfunction f, int threads, size_t dynamic, unsigned flags), ((void)flags, active(out, f, threads, dynamic)))
DRIVER(cuOccupancyMaxPotentialBlockSize,
       (int *grid, int *block, CUfunction f, size_t (*dynamic_of)(int), size_t dynamic, int limit),
       potential(grid, block, f, dynamic_of, dynamic, limit))
DRIVER(cuOccupancyMaxPotentialBlockSizeWithFlags,
       (int *grid, int *block, CUfunction f, size_t (*dynamic_of)(int), size_t dynamic, int limit, unsigned flags),
       ((void)flags, potential(grid, block, f, dynamic_of, dynamic, limit)))
DRIVER(cuOccupancyAvailableDynamicSMemPerBlock, (size_t * out, CUfunction f, int count, int threads),
       available(out, f, count, threads))
DRIVER(cuOccupancyMaxPotentialClusterSize, (int *out, CUfunction f, const CUlaunchConfig *c), clusters(out, f, c, 8))
DRIVER(cuOccupancyMaxActiveClusters, (int *out, CUfunction f, const CUlaunchConfig *c), clusters(out, f, c, SMS / 8))
