/*
 * The library's own memory, from mmap. All files take theirs here; CUPTI's buffers alone
 * come from the program's malloc (pool.c). It must not touch the program's allocator or
 * any lock of it, since it runs inside CUDA calls. Builds with a sanitizer use that
 * allocator all the same, so that the sanitizer sees accesses beyond an end.
 */
#include "mem.h"

#include <stdlib.h>
#include <sys/mman.h>

#ifdef CT_CHECKED
void *ct_alloc(size_t size)
{
	return calloc(1, size);
}

void ct_free(void *p, size_t size)
{
	(void)size;
	free(p);
}
#else
void *ct_alloc(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

void ct_free(void *p, size_t size)
{
	if (p)
		munmap(p, size);
}
#endif

/* Memory that is shared with forked children, NULL when that is impossible. */
void *ct_alloc_shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

void ct_free_shared(void *p, size_t size)
{
	munmap(p, size);
}

/* Memory that is shared with the owner of a descriptor, NULL when that is impossible. */
void *ct_map_shared(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}
