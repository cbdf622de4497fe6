#ifndef CT_MEM_H
#define CT_MEM_H

#include <stddef.h>

void *ct_alloc(size_t size); /* zeroed, 8-byte aligned; NULL without memory */
void *ct_alloc_shared(size_t size);
void ct_free_shared(void *p, size_t size);
void *ct_map_shared(int fd, size_t size);
void ct_free(void *p, size_t size);

#endif
