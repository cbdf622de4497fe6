#ifndef CT_LOAD_H
#define CT_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti_abi.h"

/* A libcupti that the recorder knows of. */
struct ct_candidate {
	const char *path;
	uint32_t major; /* CUDA release, 0 when not known */
};

/* How many libraries the dynamic linker has loaded and unloaded so far. */
struct ct_load_counts {
	unsigned long long loads, unloads;
};

bool ct_load_mapped(void);
bool ct_load(struct ct_cupti *api, const struct ct_candidate *list, unsigned count);
bool ct_load_again(struct ct_cupti *api);
void *ct_load_symbol(const char *name);
void *ct_load_early(const char *name, const struct ct_candidate *list, unsigned count);
uint32_t ct_load_driver(void);
void *ct_load_driver_symbol(const char *name);
bool ct_load_driver_code(const char *name, uintptr_t *from, uintptr_t *to);
bool ct_load_keep(void *function, const char *name); /* name NULL: any */
bool ct_load_count_devices(void);
struct ct_load_counts ct_load_counts(void);
const char *ct_load_path(void);
const char *ct_load_error(void);

/* What CUPTI has refused. */
void ct_complain(const char *what, const char *more);
void ct_complain_of(const struct ct_cupti *api, const char *what, const char *which, ct_result r);
void ct_complaints_clear(void);
const char *ct_complaints(void);

#endif
