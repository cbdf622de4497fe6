/*
 * nvtx ENTRY: a program without libcupti that uses NVTX before CUDA and after. It
 * has the library loaded as NVTX does, calls its function ENTRY with a table,
 * starts CUDA, calls it with another, and prints what came of each call, and how
 * many tables libcupti was given after each. Ends with 7.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuDriverGetVersion(int *v)
{
	*v = 13000;
	return 0;
}

static void *function(const char *variable, const char *name)
{
	const char *path = getenv(variable);
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	return library ? dlsym(library, name) : NULL;
}

/* Stand for the functions that give an injected library NVTX's tables: a program may have none of them. */
static const void *get_table(uint32_t table)
{
	(void)table;
	return NULL;
}

static const void *get_other_table(uint32_t table)
{
	return table == UINT32_MAX ? "" : NULL;
}

static void use_nvtx(const char *entry, void *table)
{
	int (*initialize)(void *) = NULL;
	*(void **)&initialize = function("NVTX_INJECTION64_PATH", entry);
	printf("%d ", initialize ? initialize(table) : -1);
	void *cupti = dlopen("libcupti.so.13", RTLD_LAZY | RTLD_NOLOAD);
	int (*tables)(void) = NULL;
	if (cupti)
		*(void **)&tables = dlsym(cupti, "fake_tables");
	printf("%d\n", tables ? tables() : -1);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	use_nvtx(argv[1], (void *)get_table);
	int (*initialize)(void) = NULL;
	*(void **)&initialize = function("CUDA_INJECTION64_PATH", "InitializeInjection");
	if (initialize && initialize() != 1)
		return 99;
	use_nvtx(argv[1], (void *)get_other_table);
	return 7;
}
