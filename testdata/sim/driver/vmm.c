/* Virtual memory management: a range is reserved, pages are made and mapped
 * into the range. Each allocation of pages is a file. Addresses have no access until
 * cuMemSetAccess. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define GRANULARITY (2u << 20)
#define MAPPINGS 4096

struct pages {
	struct sim_handle handle;
	int fd;
	size_t size;
	unsigned users; /* the handle itself and mappings */
	CUmemAllocationProp prop;
};

static struct sim_slab slab = SIM_SLAB(struct pages, 65536);
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct {
	char *start;
	size_t size;
	struct pages *pages;
} mapped[MAPPINGS];

static struct pages *find(CUmemGenericAllocationHandle h)
{
	struct pages *p = (struct pages *)h;
	return sim_slab_has(&slab, p) ? p : NULL;
}

/* With mu held. */
static void put(struct pages *p)
{
	if (--p->users)
		return;
	close(p->fd);
	sim_slab_put(&slab, p);
}

static CUresult reserve(CUdeviceptr *out, size_t size, CUdeviceptr wish)
{
	if (!out || !size || size % GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	void *p = mmap((void *)wish, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (CUdeviceptr)p;
	return CUDA_SUCCESS;
}

static CUresult address_free(CUdeviceptr p, size_t size)
{
	return p && size && munmap((void *)p, size) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop)
{
	struct sim_device_info info;
	if (!out || !prop || !size || size % GRANULARITY || sim_device_info(prop->location.id, &info))
		return CUDA_ERROR_INVALID_VALUE;
	struct pages *p = sim_slab_get(&slab);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->fd = memfd_create("cudasim", MFD_CLOEXEC);
	if (p->fd < 0 || ftruncate(p->fd, (off_t)size)) {
		if (p->fd >= 0)
			close(p->fd);
		sim_slab_put(&slab, p);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	p->size = size;
	p->users = 1;
	p->prop = *prop;
	*out = (CUmemGenericAllocationHandle)p;
	return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle h)
{
	struct pages *p = find(h);
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&mu);
	put(p);
	pthread_mutex_unlock(&mu);
	return CUDA_SUCCESS;
}

/* The index of the mapping that starts at p, or of a free slot for NULL; -1 for none. */
static int place(const char *p)
{
	for (int i = 0; i < MAPPINGS; i++)
		if (mapped[i].start == p)
			return i;
	return -1;
}

static CUresult map(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle h)
{
	struct pages *p = find(h);
	CUresult r = CUDA_SUCCESS;
	if (!p || !at || !size || offset + size > p->size)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&mu);
	int i = place((char *)at) >= 0 ? -1 : place(NULL);
	if (i < 0)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (mmap((void *)at, size, PROT_NONE, MAP_SHARED | MAP_FIXED, p->fd, (off_t)offset) == MAP_FAILED)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (!r) {
		mapped[i].start = (char *)at;
		mapped[i].size = size;
		mapped[i].pages = p;
		p->users++;
	}
	pthread_mutex_unlock(&mu);
	return r;
}

static CUresult unmap(CUdeviceptr at, size_t size)
{
	sim_memory_disown((void *)at); /* if it was accessible: after the work that uses it */
	pthread_mutex_lock(&mu);
	int i = at ? place((char *)at) : -1;
	if (i >= 0 && mapped[i].size == size) {
		mmap((void *)at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		put(mapped[i].pages);
		mapped[i].start = NULL;
	} else {
		i = -1;
	}
	pthread_mutex_unlock(&mu);
	return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Every mapping in the range becomes device memory. */
static CUresult set_access(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult r = desc && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	bool any = false;
	pthread_mutex_lock(&mu);
	for (int i = 0; i < MAPPINGS && !r; i++) {
		if (mapped[i].start < (char *)at || mapped[i].start >= (char *)at + size)
			continue;
		any = true;
		if (mprotect(mapped[i].start, mapped[i].size, PROT_READ | PROT_WRITE))
			r = CUDA_ERROR_INVALID_VALUE;
		struct sim_block b;
		if (!r && !sim_memory_find(mapped[i].start, &b))
			r = sim_memory_adopt(mapped[i].start, mapped[i].size, SIM_DEVICE_MEMORY, 0);
	}
	pthread_mutex_unlock(&mu);
	return r || any ? r : CUDA_ERROR_INVALID_VALUE;
}

static CUresult granularity(size_t *out, const CUmemAllocationProp *prop)
{
	if (!out || !prop)
		return CUDA_ERROR_INVALID_VALUE;
	*out = GRANULARITY;
	return CUDA_SUCCESS;
}

DRIVER(cuMemAddressReserve, (CUdeviceptr * out, size_t size, size_t alignment, CUdeviceptr wish, unsigned long long flags),
       ((void)alignment, (void)flags, reserve(out, size, wish)))
DRIVER(cuMemAddressFree, (CUdeviceptr p, size_t size), address_free(p, size))
DRIVER_SHOWN(cuMemCreate, (CUmemGenericAllocationHandle * out, size_t size, const CUmemAllocationProp *prop, unsigned long long flags),
	     (out, size, prop, flags),
       ((void)flags, create(out, size, prop)))
DRIVER_SHOWN(cuMemRelease, (CUmemGenericAllocationHandle h), (h), release(h))
DRIVER_SHOWN(cuMemMap, (CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags),
	     (at, size, offset, h, flags),
       ((void)flags, map(at, size, offset, h)))
DRIVER_SHOWN(cuMemUnmap, (CUdeviceptr at, size_t size), (at, size), unmap(at, size))
DRIVER(cuMemSetAccess, (CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t count),
       set_access(at, size, desc, count))
DRIVER(cuMemGetAllocationGranularity, (size_t * out, const CUmemAllocationProp *prop, int option),
       ((void)option, granularity(out, prop)))
