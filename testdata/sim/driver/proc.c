#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define PER_THREAD_DEFAULT_STREAM 2u

enum { FOUND, SYMBOL_NOT_FOUND };

/* The newest spelling of name wins, the per-thread spelling on request. */
static void *look_up(void *self, const char *name, uint64_t flags)
{
	static const char *const per_thread[] = {"_v4_ptsz", "_v3_ptsz", "_v2_ptsz", "_v2_ptds", "_ptsz", "_ptds"};
	static const char *const plain[] = {"_v4", "_v3", "_v2", ""};
	char full[256];
	void *found = NULL;
	if (!strcmp(name, "cuGraphInstantiate"))
		name = "cuGraphInstantiateWithFlags"; /* the meaning of the name since CUDA 12 */
	if (flags & PER_THREAD_DEFAULT_STREAM)
		for (size_t i = 0; !found && i < sizeof per_thread / sizeof *per_thread; i++) {
			snprintf(full, sizeof full, "%s%s", name, per_thread[i]);
			found = dlsym(self, full);
		}
	for (size_t i = 0; !found && i < sizeof plain / sizeof *plain; i++) {
		snprintf(full, sizeof full, "%s%s", name, plain[i]);
		found = dlsym(self, full);
	}
	return found;
}

/* Callers name functions without version or stream suffix. */
static bool suffixed(const char *name)
{
	const char *last = strrchr(name, '_');
	return last && (!strcmp(last, "_ptsz") || !strcmp(last, "_ptds") || (last[1] == 'v' && last[2] >= '0' && last[2] <= '9'));
}

/* With a status argument, a name that is not found is no error. */
static CUresult proc_address(const char *name, void **fn, int version, uint64_t flags, int *status)
{
	if (!name || !fn || version < 0)
		return CUDA_ERROR_INVALID_VALUE;
	void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	*fn = self && !suffixed(name) ? look_up(self, name, flags) : NULL;
	if (self)
		dlclose(self);
	if (status)
		*status = *fn ? FOUND : SYMBOL_NOT_FOUND;
	return *fn || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

DRIVER(cuGetProcAddress_v2, (const char *name, void **fn, int version, uint64_t flags, int *status),
       proc_address(name, fn, version, flags, status))
