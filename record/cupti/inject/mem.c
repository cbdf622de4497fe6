/*
 * Memory comes from mmap, so that neither the program's allocator nor a lock of
 * it is ever touched from inside a CUDA call. Builds with a sanitizer use the
 * allocator instead, which finds what runs over an end.
 */
#include "inject.h"

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
