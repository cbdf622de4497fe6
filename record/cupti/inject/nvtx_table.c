/*
 * Functions of ours in a program's table of NVTX, before those of CUPTI. range.c and nccl.c have some; where both
 * have one for the same entry, the one that is put there later is called first.
 */
#include "nvtx_table.h"

#include <stdatomic.h>
#include <string.h>

/* Where a program keeps the pointer to a function; NULL if it has none. */
static nvtx_fn *slot(void *get_export_table, const struct ct_nvtx_hook *h)
{
	nvtx_export_fn export;
	memcpy(&export, &get_export_table, sizeof export);
	const struct nvtx_callbacks *c = export ? export(NVTX_TABLE_CALLBACKS) : NULL;
	nvtx_fn **table = NULL;
	uint32_t count = 0;
	if (!c || c->size < sizeof *c || !c->get_module_table(h->module, &table, &count) || !table)
		return NULL;
	return h->number < count ? table[h->number] : NULL;
}

/* CUPTI is about to take a program's table: was becomes what the table has. */
void ct_nvtx_before(void *get_export_table, const struct ct_nvtx_hook *hooks, unsigned count, nvtx_fn *was)
{
	for (unsigned i = 0; i < count; i++) {
		nvtx_fn *at = slot(get_export_table, &hooks[i]);
		was[i] = at ? *at : NULL;
	}
}

/* CUPTI has taken it: puts our functions before CUPTI's. A function that CUPTI left alone is the program's own beginning of NVTX. */
void ct_nvtx_after(void *get_export_table, const struct ct_nvtx_hook *hooks, unsigned count, const nvtx_fn *was)
{
	for (unsigned i = 0; i < count; i++) {
		nvtx_fn *at = slot(get_export_table, &hooks[i]);
		if (!at || *at == hooks[i].function)
			continue;
		if (*at != was[i])
			atomic_store(hooks[i].next, *at);
		*at = hooks[i].function;
	}
}
