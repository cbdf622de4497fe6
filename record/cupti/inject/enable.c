/*
 * Switching records on, and off again in full when an essential step fails.
 * Only the thread that runs the handshake, then the control thread, then the
 * thread that ends the program come here, each after the other.
 */
#include "inject.h"

#include <stdio.h>
#include <string.h>

#define MISSES 512 /* callback ids have gaps; so many unknown ones in a row are the end */

static const struct {
	uint32_t kind;
	const char *name;
	bool essential;
} kinds[] = {
	{KIND_DEVICE, "device", false},
	{KIND_CONTEXT, "context", false},
	{KIND_STREAM, "stream", false},
	{KIND_MEMCPY2, "peer copy", false},
	{KIND_MEMCPY, "copy", true},
	{KIND_MEMSET, "set", true},
	{KIND_CONCURRENT_KERNEL, "kernel", true},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static bool kind_on[KINDS];
static bool whole_domain[3]; /* all of a domain's records are on, for want of a finer switch */
static _Atomic uint32_t names[3][CT_CBID_MAX]; /* number of the call's name, 0 for calls not wanted */
static uint32_t calls_on;
static char text[512];

uint32_t ct_enable_count(void)
{
	return calls_on;
}

const char *ct_enable_text(void)
{
	return text;
}

/* The number of the name of a wanted call, else 0. */
uint32_t ct_enable_name(uint32_t domain, uint32_t cbid)
{
	return domain < 3 && cbid < CT_CBID_MAX ? names[domain][cbid] : 0;
}

static void complain(const struct ct_cupti *api, const char *what, const char *which, ct_result r)
{
	const char *words = NULL;
	if (!api->get_result_string || api->get_result_string(r, &words) != 0)
		words = NULL;
	size_t used = strlen(text);
	snprintf(text + used, sizeof text - used, "%s%s%s failed: %s (error %d)", used ? "; " : "", what, which,
		 words ? words : "no words for it", r);
}

static bool enable_kinds(const struct ct_cupti *api)
{
	for (size_t i = 0; i < KINDS; i++) {
		ct_result r = api->enable(kinds[i].kind);
		kind_on[i] = r == 0;
		if (r == 0)
			continue;
		complain(api, "cuptiActivityEnable of records of kind ", kinds[i].name, r);
		if (kinds[i].essential)
			return false;
	}
	return true;
}

static ct_result (*one_call(const struct ct_cupti *api, uint32_t domain))(uint32_t, uint8_t)
{
	return domain == DOMAIN_DRIVER ? api->enable_driver_api : api->enable_runtime_api;
}

static void enable_call(const struct ct_cupti *api, uint32_t domain, uint32_t cbid, const char *callback)
{
	char name[128];
	ct_call_name(callback, name, sizeof name);
	if (!ct_call_wanted(name) || cbid >= CT_CBID_MAX)
		return;
	ct_result (*enable)(uint32_t, uint8_t) = one_call(api, domain);
	/* The name comes first: a record may arrive as soon as the call is on. */
	names[domain][cbid] = ct_strings_id(name);
	if (enable && enable(cbid, 1) != 0)
		names[domain][cbid] = 0;
	else
		calls_on++;
}

static void enable_by_name(const struct ct_cupti *api, uint32_t domain)
{
	unsigned misses = 0;
	for (uint32_t cbid = 1; cbid < CT_CBID_MAX && misses < MISSES; cbid++) {
		const char *name = NULL;
		if (api->get_callback_name(domain, cbid, &name) != 0 || !name) {
			misses++;
			continue;
		}
		misses = 0;
		enable_call(api, domain, cbid, name);
	}
}

static void enable_known(const struct ct_cupti *api, uint32_t domain)
{
	for (const struct ct_known_call *c = ct_known_calls; c->name; c++)
		if (c->domain == domain)
			enable_call(api, domain, c->cbid, c->name);
}

/* Without a switch for single calls all calls are recorded; translation keeps the wanted ones. */
static bool enable_domain(const struct ct_cupti *api, uint32_t domain)
{
	if (api->get_callback_name)
		enable_by_name(api, domain);
	else
		enable_known(api, domain);
	if (one_call(api, domain))
		return true;
	ct_result r = api->enable(domain == DOMAIN_DRIVER ? KIND_DRIVER : KIND_RUNTIME);
	whole_domain[domain] = r == 0;
	if (r != 0)
		complain(api, "cuptiActivityEnable of API records", "", r);
	return r == 0;
}

static bool enable_calls(const struct ct_cupti *api)
{
	if (!enable_domain(api, DOMAIN_RUNTIME) || !enable_domain(api, DOMAIN_DRIVER))
		return false;
	if (calls_on == 0)
		snprintf(text, sizeof text, "no API record could be switched on");
	return calls_on > 0;
}

/* Must precede the first enable: CUPTI takes its clock and thread ids then. */
static void prepare(const struct ct_cupti *api)
{
	ct_result r = 1;
	if (api->register_timestamp) {
		r = api->register_timestamp(ct_timestamp);
		if (r != 0)
			complain(api, "cuptiActivityRegisterTimestampCallback", "", r);
	}
	ct_clock_begin(api, r == 0);
	if (api->set_thread_id_type && (r = api->set_thread_id_type(THREAD_ID_SYSTEM)) != 0)
		complain(api, "cuptiSetThreadIdType", "", r);
}

/*
 * cuptiActivityFlushPeriod is left alone: it replaces CUPTI's own sense of when to
 * hand over full buffers. Set to a second it kept so many back that a loop of
 * 500,000 launches a second lost half of them (H200, CUPTI 13.0.1); without it
 * nothing was lost. The control thread flushes what is old.
 */
bool ct_enable(const struct ct_cupti *api)
{
	prepare(api);
	ct_result r = api->register_callbacks(ct_pool_request, ct_complete);
	if (r != 0) {
		complain(api, "cuptiActivityRegisterCallbacks", "", r);
		return false;
	}
	if (!enable_kinds(api) || !enable_calls(api)) {
		ct_disable(api);
		return false;
	}
	return true;
}

static void disable_domain(const struct ct_cupti *api, uint32_t domain)
{
	ct_result (*enable)(uint32_t, uint8_t) = one_call(api, domain);
	for (uint32_t cbid = 1; enable && cbid < CT_CBID_MAX; cbid++)
		if (names[domain][cbid])
			enable(cbid, 0);
	if (whole_domain[domain])
		api->disable(domain == DOMAIN_DRIVER ? KIND_DRIVER : KIND_RUNTIME);
	whole_domain[domain] = false;
}

/*
 * Switches everything off that is on. What cannot be switched off is harmless:
 * its records go nowhere. The table of names stays, since records that were
 * made before may still arrive on another thread.
 */
void ct_disable(const struct ct_cupti *api)
{
	disable_domain(api, DOMAIN_RUNTIME);
	disable_domain(api, DOMAIN_DRIVER);
	for (size_t i = 0; i < KINDS; i++)
		if (kind_on[i])
			api->disable(kinds[i].kind);
	memset(kind_on, 0, sizeof kind_on);
	calls_on = 0;
}
