#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool gs_resolve(void *library, const char *file, const struct gs_function *functions, size_t count, void *table, char *text, size_t size)
{
	for (size_t i = 0; i < count; i++) {
		void *f = dlsym(library, functions[i].name);
		if (!f && functions[i].needed) {
			snprintf(text, size, "%s has no function %s", file, functions[i].name);
			return false;
		}
		memcpy((char *)table + functions[i].field, &f, sizeof f);
	}
	return true;
}
