/*
 * Names of CUDA's calls: which calls are to have API records, and which create GPU
 * work. wanted.c and switch.c ask, once for each name that CUPTI knows. Unless the
 * recorder names others, API records are made of calls that create GPU work: a program
 * makes ten times as many other calls, which nobody correlates. Nothing is kept here.
 */
#include "calls.h"

#include "cupti_abi.h"

#include <string.h>

static const char *const with_work[] = {
	"cudaLaunch",      "cudaMemcpy",       "cudaMemset",
	"cudaGraphLaunch", "cudaMemPrefetch",  "cudaMemDiscardAndPrefetch",
	"cuLaunch",        "cuMemcpy",         "cuMemset",
	"cuGraphLaunch",   "cuMemPrefetch",    "cuMemDiscardAndPrefetch",
};

/* Host functions run on the CPU and have no record of GPU work. */
static const char *const without_work[] = {"cudaLaunchHostFunc", "cuLaunchHostFunc"};

static bool starts_with(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(name, list[i], strlen(list[i])) == 0)
			return true;
	return false;
}

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The length of a name without its last _vN, _ptds or _ptsz; the whole length without one. */
static size_t without_suffix(const char *name, size_t n)
{
	size_t digits = 0;
	while (digits < n && digit(name[n - 1 - digits]))
		digits++;
	if (digits > 0 && n > digits + 2 && name[n - digits - 1] == 'v' && name[n - digits - 2] == '_')
		return n - digits - 2;
	if (n > 5 && (memcmp(name + n - 5, "_ptds", 5) == 0 || memcmp(name + n - 5, "_ptsz", 5) == 0))
		return n - 5;
	return n;
}

/* The length of a name without its suffixes: that of cuMemcpyHtoD for cuMemcpyHtoD_v2_ptds. */
size_t ct_call_base(const char *name)
{
	size_t n = strlen(name), before;
	do {
		before = n;
		n = without_suffix(name, n);
	} while (n < before);
	return n;
}

static bool listed(const char *name, const struct ct_calls *calls)
{
	const unsigned char *p = calls->list;
	uint32_t left = calls->size, length;
	size_t base = ct_call_base(name);
	for (uint32_t i = 0; i < calls->count && left >= sizeof length; i++) {
		memcpy(&length, p, sizeof length);
		p += sizeof length;
		left -= (uint32_t)sizeof length;
		if (length > left)
			return false;
		if (length == base && memcmp(p, name, base) == 0)
			return true;
		p += length;
		left -= length;
	}
	return false;
}

bool ct_call_creates_work(const char *name)
{
	return starts_with(name, with_work, sizeof with_work / sizeof with_work[0]) &&
	       !starts_with(name, without_work, sizeof without_work / sizeof without_work[0]);
}

bool ct_call_wanted(const char *name, const struct ct_calls *calls)
{
	if (calls->count > 0)
		return listed(name, calls);
	return ct_call_creates_work(name);
}

/*
 * Copies a callback's name without the release that CUPTI puts behind runtime
 * names: cudaLaunchKernel_v7000 becomes cudaLaunchKernel. A driver's _v2 is part
 * of the function's name and stays. Returns the length.
 */
size_t ct_call_name(const char *name, char *out, size_t size)
{
	size_t n = strlen(name), digits = 0;
	while (digits < n && digit(name[n - 1 - digits]))
		digits++;
	if (digits >= 4 && n > digits + 2 && name[n - digits - 1] == 'v' && name[n - digits - 2] == '_')
		n -= digits + 2;
	if (n >= size)
		n = size - 1;
	memcpy(out, name, n);
	out[n] = 0;
	return n;
}

/* For a CUPTI that does not tell names. Ids never change their meaning. */
const struct ct_known_call ct_known_calls[] = {
	{DOMAIN_RUNTIME, 31, "cudaMemcpy"},
	{DOMAIN_RUNTIME, 41, "cudaMemcpyAsync"},
	{DOMAIN_RUNTIME, 51, "cudaMemsetAsync"},
	{DOMAIN_RUNTIME, 211, "cudaLaunchKernel"},
	{DOMAIN_RUNTIME, 311, "cudaGraphLaunch"},
	{DOMAIN_RUNTIME, 430, "cudaLaunchKernelExC"},
	{DOMAIN_DRIVER, 307, "cuLaunchKernel"},
	{DOMAIN_DRIVER, 442, "cuLaunchKernel_ptsz"},
	{DOMAIN_DRIVER, 514, "cuGraphLaunch"},
	{DOMAIN_DRIVER, 652, "cuLaunchKernelEx"},
	{0, 0, NULL},
};
