#include <string.h>
#include <sys/mman.h>

#include "internal.h"

static char *reserve(struct sim_slab *slab)
{
	char *base = atomic_load_explicit(&slab->base, memory_order_acquire);
	if (base)
		return base;
	base = mmap(NULL, slab->slot * slab->max, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	if (base == MAP_FAILED)
		return NULL;
	atomic_store_explicit(&slab->base, base, memory_order_release);
	return base;
}

void *sim_slab_get(struct sim_slab *slab)
{
	struct sim_handle *h = NULL;
	pthread_mutex_lock(&slab->mu);
	char *base = reserve(slab);
	if (slab->free) {
		h = slab->free;
		slab->free = h->next;
		memset((char *)h + sizeof *h, 0, slab->slot - sizeof *h);
	} else if (base && slab->used < slab->max) {
		h = (void *)(base + slab->slot * slab->used++);
	}
	if (h)
		atomic_store(&h->live, true);
	pthread_mutex_unlock(&slab->mu);
	return h;
}

void sim_slab_put(struct sim_slab *slab, void *slot)
{
	struct sim_handle *h = slot;
	pthread_mutex_lock(&slab->mu);
	atomic_store(&h->live, false);
	h->next = slab->free;
	slab->free = h;
	pthread_mutex_unlock(&slab->mu);
}
