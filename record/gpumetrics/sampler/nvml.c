#include "nvml.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "wire.h"

struct gs_nvml gs_nvml;

static const struct {
	const char *name;
	size_t field;
	bool needed;
} functions[] = {
#define NEED(type, name, arguments) {#name, offsetof(struct gs_nvml, name), true},
#define MAY(type, name, arguments) {#name, offsetof(struct gs_nvml, name), false},
#include "nvml.def"
#undef NEED
#undef MAY
};

static bool resolve(void *library, char *text, unsigned size)
{
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		void *f = dlsym(library, functions[i].name);
		if (!f && functions[i].needed) {
			snprintf(text, size, "libnvidia-ml.so.1 has no function %s", functions[i].name);
			return false;
		}
		memcpy((char *)&gs_nvml + functions[i].field, &f, sizeof f);
	}
	return true;
}

uint32_t gs_nvml_open(char *text, unsigned size)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		const char *why = dlerror();
		snprintf(text, size, "%s", why ? why : "libnvidia-ml.so.1 cannot be loaded");
		return GS_NO_LIBRARY;
	}
	if (!resolve(library, text, size))
		return GS_NO_NVML;
	nvml_return r = gs_nvml.nvmlInit_v2();
	if (r == 0)
		return 0;
	const char *why = gs_nvml.nvmlErrorString ? gs_nvml.nvmlErrorString(r) : NULL;
	snprintf(text, size, "NVML does not start: error %d (%s)", r, why ? why : "unknown");
	return GS_NO_NVML;
}
