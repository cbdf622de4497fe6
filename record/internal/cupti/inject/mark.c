/*
 * Ranges that the Python module cudatrace marks: they need no NVTX in the program. The library has a table of NVTX's
 * functions as a program has one, and passes it on to CUPTI in the same way. So such a range is an NVTX range of the
 * default domain for CUPTI, for range.c and in the log.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base.h"
#include "nvtx.h"
#include "nvtx_abi.h"

__attribute__((visibility("default"))) uint64_t cudatrace_range_start(const char *name);
__attribute__((visibility("default"))) void cudatrace_range_end(uint64_t id);

enum { START_A = 5, END = 7 }; /* of NVTX_RANGE_FUNCTIONS */

static const uint32_t sizes[] = NVTX_SIZES;
#define MODULES (sizeof sizes / sizeof sizes[0])
#define SLOTS 16
static nvtx_fn functions[MODULES][SLOTS]; /* CUPTI writes them */
static nvtx_fn *table[MODULES][SLOTS + 1]; /* ends in NULL, as NVTX's do */
static atomic_bool begun;

static int get_module_table(uint32_t module, nvtx_fn ***out, uint32_t *count)
{
	if (module == 0 || module >= MODULES)
		return 0;
	if (out)
		*out = table[module];
	if (count)
		*count = sizes[module];
	return 1;
}

static void set_injection_version(uint32_t version)
{
	(void)version;
}

static const void *get_export_table(uint32_t which)
{
	static const struct nvtx_callbacks callbacks = {sizeof callbacks, get_module_table};
	static const struct nvtx_version version = {sizeof version, 3, 0, set_injection_version};
	if (which == NVTX_TABLE_CALLBACKS)
		return &callbacks;
	return which == NVTX_TABLE_VERSION ? &version : NULL;
}

/* Passes the table on, once. Ranges of other threads are not recorded meanwhile. */
static void begin(void)
{
	if (!ct_nvtx_on() || atomic_exchange(&begun, true))
		return;
	for (size_t m = 0; m < MODULES; m++)
		for (size_t i = 1; i < sizes[m]; i++)
			table[m][i] = &functions[m][i];
	nvtx_export_fn export = get_export_table;
	void *address;
	memcpy(&address, &export, sizeof address);
	InitializeInjectionNvtx2(address);
}

/* CUPTI's function, or that of range.c before it; NULL until CUPTI has the table. */
static nvtx_fn function(unsigned number)
{
	return __atomic_load_n(&functions[NVTX_CORE][number], __ATOMIC_ACQUIRE);
}

/* Starts a range, and returns its ID; 0 where it is not recorded. */
uint64_t cudatrace_range_start(const char *name)
{
	if (!name || ct_forked())
		return 0;
	if (!atomic_load(&begun))
		begin();
	nvtx_fn f = function(START_A);
	return f ? ((uint64_t(*)(const char *))f)(name) : 0;
}

/* Ends a range, on any thread. */
void cudatrace_range_end(uint64_t id)
{
	nvtx_fn f = id != 0 && !ct_forked() ? function(END) : NULL;
	if (f)
		((void (*)(uint64_t))f)(id);
}
