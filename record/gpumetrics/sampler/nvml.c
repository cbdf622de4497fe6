#include "nvml.h"

#include <dlfcn.h>
#include <stdio.h>

#include "library.h"
#include "wire.h"

struct gs_nvml gs_nvml;

static const struct gs_function functions[] = {
#define NEED(type, name, arguments) {#name, offsetof(struct gs_nvml, name), true},
#define MAY(type, name, arguments) {#name, offsetof(struct gs_nvml, name), false},
#include "nvml.def"
#undef NEED
#undef MAY
};

#define FILE_NAME "libnvidia-ml.so.1"

uint32_t gs_nvml_open(char *text, unsigned size)
{
	void *library = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		const char *why = dlerror();
		snprintf(text, size, "%s", why ? why : FILE_NAME " cannot be loaded");
		return GS_NO_LIBRARY;
	}
	if (!gs_resolve(library, FILE_NAME, functions, sizeof functions / sizeof functions[0], &gs_nvml, text, size))
		return GS_NO_NVML;
	nvml_return r = gs_nvml.nvmlInit_v2();
	if (r == 0)
		return 0;
	const char *why = gs_nvml.nvmlErrorString ? gs_nvml.nvmlErrorString(r) : NULL;
	snprintf(text, size, "NVML does not start: error %d (%s)", r, why ? why : "unknown");
	return GS_NO_NVML;
}
