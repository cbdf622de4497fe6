/* Device memory of another process. The handle names the process whose open files
 * hold the pages. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

struct shared {
	uint32_t magic;
	int32_t pid, fd;
	uint64_t size;
};

#define MAGIC 0x43504953u /* "SIPC" */

static CUresult get(CUipcMemHandle *out, CUdeviceptr p)
{
	struct shared h = {.magic = MAGIC, .pid = getpid()};
	size_t size;
	CUresult r = out ? sim_memory_share((void *)p, &size, &h.fd) : CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	h.size = size;
	memset(out, 0, sizeof *out);
	memcpy(out, &h, sizeof h);
	return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr *out, int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult r = sim_memory_adopt(p, size, SIM_DEVICE_MEMORY, 0);
	if (r)
		munmap(p, size);
	else
		*out = (CUdeviceptr)p;
	return r;
}

/* A handle of this very process is refused, as CUDA does. */
static CUresult open_handle(CUdeviceptr *out, const CUipcMemHandle *handle)
{
	struct shared h;
	char path[64];
	memcpy(&h, handle, sizeof h);
	if (!out || h.magic != MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (h.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult r = map(out, fd, h.size);
	close(fd);
	return r;
}

static CUresult close_handle(CUdeviceptr p)
{
	struct sim_block b;
	if (!sim_memory_find((void *)p, &b) || b.kind != SIM_DEVICE_MEMORY)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = sim_memory_disown((void *)p);
	if (!r)
		munmap(b.start, b.size);
	return r;
}

DRIVER(cuIpcGetMemHandle, (CUipcMemHandle * out, CUdeviceptr p), get(out, p))
DRIVER(cuIpcOpenMemHandle_v2, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
       ((void)flags, open_handle(out, &handle)))
DRIVER(cuIpcCloseMemHandle, (CUdeviceptr p), close_handle(p))
