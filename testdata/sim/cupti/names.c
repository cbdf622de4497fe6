#include "internal.h"

static const char *const driver[CBIDS] = {
#define N(id, name) [id] = name,
#include "../api/driver_names.def"
#undef N
};

static const char *const runtime[CBIDS] = {
#define N(id, name) [id] = name,
#include "../../../record/cudaapi/runtime_names.def"
#undef N
};

const char *cupti_name(uint32_t domain, uint32_t cbid)
{
	if (cbid >= CBIDS || (domain != SIM_DRIVER && domain != SIM_RUNTIME))
		return NULL;
	return domain == SIM_DRIVER ? driver[cbid] : runtime[cbid];
}

CUPTI(cuptiGetCallbackName, (uint32_t domain, uint32_t cbid, const char **name))
{
	if (!name)
		return CUPTI_ERROR_INVALID_PARAMETER;
	const char *found = cupti_name(domain, cbid);
	if (!found)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*name = found;
	return CUPTI_SUCCESS;
}

static const struct {
	CUptiResult code;
	const char *name;
} results[] = {
	{CUPTI_SUCCESS, "CUPTI_SUCCESS"},
	{CUPTI_ERROR_INVALID_PARAMETER, "CUPTI_ERROR_INVALID_PARAMETER"},
	{CUPTI_ERROR_INVALID_CONTEXT, "CUPTI_ERROR_INVALID_CONTEXT"},
	{CUPTI_ERROR_INVALID_OPERATION, "CUPTI_ERROR_INVALID_OPERATION"},
	{CUPTI_ERROR_OUT_OF_MEMORY, "CUPTI_ERROR_OUT_OF_MEMORY"},
	{CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT, "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT"},
	{CUPTI_ERROR_MAX_LIMIT_REACHED, "CUPTI_ERROR_MAX_LIMIT_REACHED"},
	{CUPTI_ERROR_NOT_COMPATIBLE, "CUPTI_ERROR_NOT_COMPATIBLE"},
	{CUPTI_ERROR_NOT_INITIALIZED, "CUPTI_ERROR_NOT_INITIALIZED"},
	{CUPTI_ERROR_INVALID_STREAM, "CUPTI_ERROR_INVALID_STREAM"},
	{CUPTI_ERROR_INVALID_KIND, "CUPTI_ERROR_INVALID_KIND"},
	{CUPTI_ERROR_NOT_SUPPORTED, "CUPTI_ERROR_NOT_SUPPORTED"},
	{CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED, "CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED"},
	{CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"},
	{2, "CUPTI_ERROR_INVALID_DEVICE"},
	{26, "CUPTI_ERROR_HARDWARE_BUSY"},
	{35, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"},
	{CUPTI_ERROR_UNKNOWN, "CUPTI_ERROR_UNKNOWN"},
};

CUPTI(cuptiGetResultString, (CUptiResult code, const char **out))
{
	if (!out)
		return CUPTI_ERROR_INVALID_PARAMETER;
	for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
		if (results[i].code == code) {
			*out = results[i].name;
			return CUPTI_SUCCESS;
		}
	}
	return CUPTI_ERROR_INVALID_PARAMETER;
}
