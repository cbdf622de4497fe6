/*
 * Which records are made, and switching them on and off; all off again when an
 * essential step fails. Devices, contexts, streams and names are seldom and must
 * be known of whatever is recorded later: they stay on while work's records are
 * off. One thread at a time comes here, see switch.c.
 */
#include "inject.h"

#include <stdio.h>
#include <string.h>

#define MISSES 512 /* callback ids have gaps; so many unknown ones in a row are the end */
#define ALWAYS 0u

static const struct {
	uint32_t kind;
	uint32_t records; /* CT_RECORDS_* that it belongs to; ALWAYS */
	const char *name;
	bool essential;
	bool object; /* stays on */
} kinds[] = {
	{KIND_DEVICE, ALWAYS, "device", false, true},
	{KIND_CONTEXT, ALWAYS, "context", false, true},
	{KIND_STREAM, ALWAYS, "stream", false, true},
	{KIND_NAME, CT_RECORDS_NVTX, "name", false, true},
	{KIND_MARKER, CT_RECORDS_NVTX, "NVTX", false, false},
	{KIND_SYNCHRONIZATION, CT_RECORDS_SYNC, "synchronization", false, false},
	{KIND_OVERHEAD, CT_RECORDS_OVERHEAD, "overhead", false, false},
	{KIND_MEMORY2, CT_RECORDS_MEMORY, "memory", false, false},
	{KIND_MEMORY_POOL, CT_RECORDS_MEMORY, "memory pool", false, false},
	{KIND_GRAPH_TRACE, CT_RECORDS_GRAPHS, "whole graph", false, false},
	{KIND_MEMCPY2, ALWAYS, "peer copy", false, false},
	{KIND_MEMCPY, ALWAYS, "copy", true, false},
	{KIND_MEMSET, ALWAYS, "set", true, false},
	{KIND_CONCURRENT_KERNEL, ALWAYS, "kernel", true, false},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

/*
 * A call of each domain that stays on from before the runtime's start: cuProfilerStart
 * and cudaProfilerStart, which programs hardly call. Without one, CUPTI makes no API
 * record at all of calls that are switched on later (H200, CUPTI 13.0.1: 0 of 20
 * launches, with one 20).
 */
static const uint32_t anchors[] = {[DOMAIN_DRIVER] = 308, [DOMAIN_RUNTIME] = 171};

static bool kind_wanted[KINDS], kind_on[KINDS];
static bool whole_domain[3]; /* all of a domain's records are on, for want of a finer switch */
static _Atomic uint32_t names[3][CT_CBID_MAX]; /* number of the call's name, 0 for calls not wanted */
static bool creates_work[3][CT_CBID_MAX]; /* of wanted calls */
static _Atomic uint32_t calls_found;
static bool calls_on[3];
static _Atomic uint64_t work_until = UINT64_MAX; /* when work's records went off; UINT64_MAX while they are on */
static bool again; /* what is switched on was on before: the words are new */
static char text[1024];

uint32_t ct_enable_count(void)
{
	return calls_found;
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

/* Whether a call is part of the recording: it began before the records of its work went off. */
bool ct_enable_began_in_time(uint64_t start)
{
	return start <= atomic_load_explicit(&work_until, memory_order_relaxed);
}

bool ct_enable_creates_work(uint32_t domain, uint32_t cbid)
{
	return domain < 3 && cbid < CT_CBID_MAX && creates_work[domain][cbid];
}

void ct_enable_say(const char *what, const char *more)
{
	size_t used = strlen(text);
	snprintf(text + used, sizeof text - used, "%s%s%s", used ? "; " : "", what, more);
}

void ct_enable_complain(const struct ct_cupti *api, const char *what, const char *which, ct_result r)
{
	const char *words = NULL;
	char why[256];
	if (!api->get_result_string || api->get_result_string(r, &words) != 0)
		words = NULL;
	snprintf(why, sizeof why, "%s failed: %s (error %d)", which, words ? words : "no words for it", r);
	ct_enable_say(what, why);
}

/* Switches on those that stay on, or the others. False when an essential one is refused. */
static bool enable_kinds(const struct ct_cupti *api, bool objects)
{
	for (size_t i = 0; i < KINDS; i++) {
		if (!kind_wanted[i] || kind_on[i] || kinds[i].object != objects)
			continue;
		ct_result r = api->enable(kinds[i].kind);
		kind_on[i] = r == 0;
		if (r == 0)
			continue;
		kind_wanted[i] = kinds[i].essential; /* who is refused once need not be asked again */
		ct_enable_complain(api, "cuptiActivityEnable of records of kind ", kinds[i].name, r);
		if (kinds[i].essential)
			return false;
	}
	return true;
}

static ct_result (*one_call(const struct ct_cupti *api, uint32_t domain))(uint32_t, uint8_t)
{
	return domain == DOMAIN_DRIVER ? api->enable_driver_api : api->enable_runtime_api;
}

static void want_call(uint32_t domain, uint32_t cbid, const char *callback, const struct ct_calls *calls)
{
	char name[128];
	if (cbid >= CT_CBID_MAX || !ct_call_wanted(callback, calls))
		return;
	ct_call_name(callback, name, sizeof name);
	creates_work[domain][cbid] = ct_call_creates_work(callback);
	names[domain][cbid] = ct_strings_id(name);
	calls_found += names[domain][cbid] != 0;
}

static void want_by_name(const struct ct_cupti *api, uint32_t domain, const struct ct_calls *calls)
{
	unsigned misses = 0;
	for (uint32_t cbid = 1; cbid < CT_CBID_MAX && misses < MISSES; cbid++) {
		const char *name = NULL;
		if (api->get_callback_name(domain, cbid, &name) != 0 || !name) {
			misses++;
			continue;
		}
		misses = 0;
		want_call(domain, cbid, name, calls);
	}
}

static void want_calls(const struct ct_cupti *api, const struct ct_calls *calls)
{
	for (uint32_t domain = DOMAIN_DRIVER; api->get_callback_name && domain <= DOMAIN_RUNTIME; domain++)
		want_by_name(api, domain, calls);
	for (const struct ct_known_call *c = ct_known_calls; !api->get_callback_name && c->name; c++)
		want_call(c->domain, c->cbid, c->name, calls);
}

/* Without a switch for single calls all calls are recorded; translation keeps the wanted ones. */
static bool enable_domain(const struct ct_cupti *api, uint32_t domain)
{
	ct_result r = api->enable(domain == DOMAIN_DRIVER ? KIND_DRIVER : KIND_RUNTIME);
	whole_domain[domain] = r == 0;
	if (r != 0)
		ct_enable_complain(api, "cuptiActivityEnable of API records", "", r);
	return r == 0;
}

static bool enable_calls(const struct ct_cupti *api, uint32_t domain)
{
	ct_result (*enable)(uint32_t, uint8_t) = one_call(api, domain);
	calls_on[domain] = true;
	if (!enable)
		return enable_domain(api, domain);
	for (uint32_t cbid = 1; cbid < CT_CBID_MAX; cbid++) {
		if (!names[domain][cbid] || enable(cbid, 1) == 0)
			continue;
		names[domain][cbid] = 0;
		calls_found--;
	}
	return true;
}

/*
 * Switches on the records of work: the calls first and, when going off, last, so
 * that what a program launches meanwhile never has work without its call. False when
 * that is impossible; the words say why.
 */
bool ct_enable_work(const struct ct_cupti *api)
{
	if (again)
		text[0] = 0;
	again = true;
	atomic_store(&work_until, UINT64_MAX);
	if (!enable_calls(api, DOMAIN_RUNTIME) || !enable_calls(api, DOMAIN_DRIVER) || !enable_kinds(api, false))
		return false;
	if (calls_found == 0)
		ct_enable_say("no API record could be switched on", "");
	return calls_found > 0;
}

/* Must precede the first enable: CUPTI takes its clock and thread ids then. */
static void prepare(const struct ct_cupti *api, bool own_clock)
{
	ct_result r = 1;
	if (api->register_timestamp && !own_clock) {
		r = api->register_timestamp(ct_timestamp);
		if (r != 0)
			ct_enable_complain(api, "cuptiActivityRegisterTimestampCallback", "", r);
	}
	ct_clock_begin(api, r == 0);
	if (api->set_thread_id_type && (r = api->set_thread_id_type(THREAD_ID_SYSTEM)) != 0)
		ct_enable_complain(api, "cuptiSetThreadIdType", "", r);
}

static void anchor(const struct ct_cupti *api, uint8_t on)
{
	for (uint32_t domain = DOMAIN_DRIVER; domain <= DOMAIN_RUNTIME; domain++) {
		ct_result (*enable)(uint32_t, uint8_t) = one_call(api, domain);
		if (enable)
			enable(anchors[domain], on); /* refused, it is only no anchor */
	}
}

/*
 * cuptiActivityFlushPeriod is left alone: it replaces CUPTI's own sense of when to
 * hand over full buffers. Set to a second it kept so many back that a loop of
 * 500,000 launches a second lost half of them (H200, CUPTI 13.0.1); without it
 * nothing was lost. The control thread flushes what is old.
 */
bool ct_enable(const struct ct_cupti *api, const struct ct_wish *wish)
{
	prepare(api, (wish->flags & CT_GO_OWN_CLOCK) != 0);
	ct_result r = api->register_callbacks(ct_pool_request, ct_complete);
	if (r != 0) {
		ct_enable_complain(api, "cuptiActivityRegisterCallbacks", "", r);
		return false;
	}
	for (size_t i = 0; i < KINDS; i++)
		kind_wanted[i] = kinds[i].records == ALWAYS || (wish->records & kinds[i].records) != 0;
	want_calls(api, &wish->calls);
	anchor(api, 1);
	if (!enable_kinds(api, true) || !ct_switch_start(api, wish)) {
		ct_disable(api, false);
		return false;
	}
	return true;
}

static void disable_calls(const struct ct_cupti *api, uint32_t domain)
{
	ct_result (*enable)(uint32_t, uint8_t) = one_call(api, domain);
	for (uint32_t cbid = 1; enable && calls_on[domain] && cbid < CT_CBID_MAX; cbid++)
		if (names[domain][cbid] && cbid != anchors[domain])
			enable(cbid, 0);
	calls_on[domain] = false;
	if (whole_domain[domain])
		api->disable(domain == DOMAIN_DRIVER ? KIND_DRIVER : KIND_RUNTIME);
	whole_domain[domain] = false;
}

static void disable_kinds(const struct ct_cupti *api, bool objects)
{
	for (size_t i = 0; i < KINDS; i++) {
		if (!kind_on[i] || kinds[i].object != objects)
			continue;
		api->disable(kinds[i].kind);
		kind_on[i] = false;
	}
}

/*
 * Switches the records of work off. What cannot be switched off is harmless: its
 * records go nowhere. The table of names stays, since records that were made
 * before may still arrive on another thread. linger says that there is time for the
 * records of calls that have yet to return from what they have launched.
 */
void ct_disable_work(const struct ct_cupti *api, bool linger)
{
	disable_kinds(api, false);
	uint64_t none = UINT64_MAX;
	atomic_compare_exchange_strong(&work_until, &none, ct_now());
	if (linger)
		ct_gather_calls();
	disable_calls(api, DOMAIN_RUNTIME);
	disable_calls(api, DOMAIN_DRIVER);
}

/* Switches everything off, for good. */
void ct_disable(const struct ct_cupti *api, bool linger)
{
	ct_switch_stop(api, linger);
	ct_disable_work(api, false);
	anchor(api, 0);
	disable_kinds(api, true);
}
