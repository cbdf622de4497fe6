/*
 * Switching CUPTI's records on and off; all off again when an essential step fails.
 * main.c begins, switch.c has the records of work go off and on, control.c ends it. One
 * thread at a time may come here, which switch.c sees to; no lock may be held.
 */
#include "enable.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base.h"
#include "calibration.h"
#include "calls.h"
#include "flush.h"
#include "load.h"
#include "nccl.h"
#include "pool.h"
#include "queue.h"
#include "seen.h"
#include "switch.h"
#include "translate.h"
#include "walk.h"
#include "wire.h"

enum { OPTIONAL, ESSENTIAL };
enum { PAUSES, STAYS };

static const struct {
	uint32_t kind;
	uint32_t group; /* CT_RECORDS_* that it belongs to */
	const char *name;
	bool essential;
	bool stays; /* on while the records of work are off */
} kinds[] = {
#define KIND(kind, group, name, need, stays, least, translate) {kind, group, name, (need) == ESSENTIAL, (stays) == STAYS},
#define CALLS(kind, least, translate)
#include "kinds.def"
};
#define KINDS (sizeof kinds / sizeof kinds[0])

/*
 * A call of each domain that stays on from before the runtime's start: cuProfilerStart
 * and cudaProfilerStart, which programs hardly call. Without one, CUPTI makes no API
 * record at all of calls that are switched on later (H200, CUPTI 13.0.1: 0 of 20
 * launches, with one 20). It costs a launch nothing (-14 ns of 4,090, quartiles as wide
 * as 150 ns, 60 pairs).
 */
static const uint32_t anchors[] = {[DOMAIN_DRIVER] = CBID_CUPROFILERSTART, [DOMAIN_RUNTIME] = CBID_CUDAPROFILERSTART};

static bool kind_wanted[KINDS], kind_on[KINDS];
static bool whole_domain[CT_DOMAINS]; /* all of a domain's records are on, for want of a finer switch */
static bool calls_on[CT_DOMAINS];
static bool watching; /* the timestamp callback sees the calls that begin and end the range to record */
static atomic_bool chains; /* calls of the driver's have chains, so those of the runtime's need no records */
static bool again; /* the records of work were on before: complaints begin anew */
static bool late; /* records of single calls cannot be switched on any more */

/* A kind is on or off from now on. NCCL's own words are recorded with its NVTX ranges. */
static void set_on(size_t i, bool on)
{
	kind_on[i] = on;
	if (kinds[i].kind == KIND_MARKER)
		ct_nccl_switch(on);
}

/* Switches on the kinds that stay on, or the others. False when an essential one is refused. */
static bool enable_kinds(const struct ct_cupti *api, bool that_stay)
{
	for (size_t i = 0; i < KINDS; i++) {
		if (!kind_wanted[i] || kind_on[i] || kinds[i].stays != that_stay)
			continue;
		ct_result r = api->enable(kinds[i].kind);
		set_on(i, r == 0);
		if (r == 0)
			continue;
		kind_wanted[i] = kinds[i].essential; /* what is refused once is not asked for again */
		ct_complain_of(api, "cuptiActivityEnable of records of kind ", kinds[i].name, r);
		if (kinds[i].essential)
			return false;
	}
	return true;
}

static ct_result (*one_call(const struct ct_cupti *api, uint32_t domain))(uint32_t, uint8_t)
{
	if (late)
		return NULL;
	return domain == DOMAIN_DRIVER ? api->enable_driver_api : api->enable_runtime_api;
}

/* Without a switch for single calls all calls have records; translation keeps the wanted ones. */
static bool enable_domain(const struct ct_cupti *api, uint32_t domain)
{
	ct_result r = api->enable(domain == DOMAIN_DRIVER ? KIND_DRIVER : KIND_RUNTIME);
	whole_domain[domain] = r == 0;
	if (r != 0)
		ct_complain_of(api, "cuptiActivityEnable of API records", "", r);
	return r == 0;
}

static bool enable_calls(const struct ct_cupti *api, uint32_t domain)
{
	ct_result (*enable)(uint32_t, uint8_t) = one_call(api, domain);
	calls_on[domain] = true;
	if (!enable)
		return enable_domain(api, domain);
	for (uint32_t cbid = 1; cbid < CT_CBID_MAX; cbid++)
		if (ct_wanted_name(domain, cbid) && enable(cbid, 1) != 0)
			ct_unwant_call(domain, cbid);
	return true;
}

/*
 * Switches on the records of work: the calls first and, when going off, last, so
 * that what a program launches meanwhile never has work without its call.
 */
static bool enable_work(const struct ct_cupti *api)
{
	if (again)
		ct_complaints_clear();
	again = true;
	ct_want_work();
	if ((!chains && !enable_calls(api, DOMAIN_RUNTIME)) || !enable_calls(api, DOMAIN_DRIVER) || !enable_kinds(api, false))
		return false;
	if (ct_wanted_calls() == 0)
		ct_complain("no API record could be switched on", "");
	if (chains)
		ct_open_believe(ct_now());
	return ct_wanted_calls() > 0;
}

/* Tells that calls have no callers. */
static void without_chains(void)
{
	static const char words[] = "calls have no callers, and are named by the runtime's records: CUPTI does not tell who calls";
	struct ct_note note = {.severity = 0, .text_len = sizeof words - 1};
	ct_queue_message(CT_MSG_NOTE, &note, sizeof note, words, sizeof words - 1);
}

/* The function that CUPTI asks for the time: one that looks who calls, if that is wished and possible. */
static ct_timestamp_fn timestamp(const struct ct_cupti *api, const struct ct_wish *wish)
{
	chains = (wish->flags & CT_GO_CALLERS) && api->enable_driver_api && api->set_thread_id_type &&
		 ct_walk_start(api, wish->memory_for_chains);
	return chains ? ct_walk_timestamp : ct_calibration_timestamp;
}

/* Must precede the first enable: CUPTI takes its clock and thread IDs then. */
static void prepare(const struct ct_cupti *api, const struct ct_wish *wish)
{
	ct_result clock = 1, thread = 1;
	if (api->register_timestamp && !(wish->flags & CT_GO_OWN_CLOCK)) {
		clock = api->register_timestamp(timestamp(api, wish));
		if (clock != 0)
			ct_complain_of(api, "cuptiActivityRegisterTimestampCallback", "", clock);
	}
	ct_calibration_begin(api, clock == 0);
	if (api->set_thread_id_type && (thread = api->set_thread_id_type(THREAD_ID_SYSTEM)) != 0)
		ct_complain_of(api, "cuptiSetThreadIdType", "", thread);
	chains = chains && clock == 0 && thread == 0;
	if (chains)
		ct_walk_begin();
	else if (wish->flags & CT_GO_CALLERS)
		without_chains();
}

/* A call of the driver's has no record, and so no callback, inside one of the runtime's that has. */
static bool is_anchored(uint32_t domain)
{
	return domain == DOMAIN_DRIVER || !watching;
}

static void anchor(const struct ct_cupti *api, uint8_t on)
{
	for (uint32_t domain = DOMAIN_DRIVER; domain <= DOMAIN_RUNTIME; domain++) {
		ct_result (*enable)(uint32_t, uint8_t) = one_call(api, domain);
		if (enable && is_anchored(domain))
			enable(anchors[domain], on); /* refused, it is only no anchor */
	}
	if (watching) /* never late: there are no chains then */
		api->enable_driver_api(CBID_CUPROFILERSTOP, on);
}

static bool stays_on(uint32_t domain, uint32_t cbid)
{
	return cbid == anchors[domain] || (watching && domain == DOMAIN_DRIVER && cbid == CBID_CUPROFILERSTOP);
}

/* Needs frames, and records of single calls. Older releases are not known to stand a change meanwhile. */
static void watch_range(const struct ct_cupti *api, const struct ct_wish *wish)
{
	watching = chains && (wish->flags & CT_GO_CAPTURE_RANGE) && api->version >= CUPTI_V13_0 && ct_walk_watch(ct_switch_called);
	if (watching)
		ct_switch_watched();
}

static void disable_calls(const struct ct_cupti *api, uint32_t domain)
{
	ct_result (*enable)(uint32_t, uint8_t) = one_call(api, domain);
	for (uint32_t cbid = 1; enable && calls_on[domain] && cbid < CT_CBID_MAX; cbid++)
		if (ct_wanted_name(domain, cbid) && !stays_on(domain, cbid))
			enable(cbid, 0);
	calls_on[domain] = false;
	if (whole_domain[domain])
		api->disable(domain == DOMAIN_DRIVER ? KIND_DRIVER : KIND_RUNTIME);
	whole_domain[domain] = false;
}

static void disable_kinds(const struct ct_cupti *api, bool that_stay)
{
	for (size_t i = 0; i < KINDS; i++) {
		if (!kind_on[i] || kinds[i].stays != that_stay)
			continue;
		api->disable(kinds[i].kind);
		set_on(i, false);
	}
}

/*
 * Switches the records of work off. What cannot be switched off is harmless: its
 * records go nowhere. The calls stay wanted, since records that were made before may
 * still arrive on another thread.
 */
static void disable_work(const struct ct_cupti *api, bool linger)
{
	ct_open_doubt();
	disable_kinds(api, false);
	ct_unwant_work();
	if (linger)
		ct_flush_calls();
	disable_calls(api, DOMAIN_RUNTIME);
	disable_calls(api, DOMAIN_DRIVER);
}

static const struct ct_work_switch work = {enable_work, disable_work};

/* Switches everything off, for good. */
void ct_disable(const struct ct_cupti *api, bool linger)
{
	ct_switch_stop(api, linger);
	ct_walk_end();
	disable_work(api, false);
	anchor(api, 0);
	disable_kinds(api, true);
}

/* Has the runtime's functions recorded after all; failed says that there are no chains. */
void ct_enable_runtime(const struct ct_cupti *api, bool failed)
{
	if (!atomic_exchange(&chains, false))
		return;
	if (failed)
		without_chains();
	anchor(api, 1);
	ct_switch_renew(api);
	ct_walk_end();
}

/*
 * Switches everything on, once; false when records of work are impossible, which the
 * complaints explain.
 *
 * cuptiActivityFlushPeriod is left alone: it replaces CUPTI's own sense of when to
 * deliver full buffers. Set to a second it kept so many back that a loop of 500,000
 * launches a second lost half of them (H200, CUPTI 13.0.1); without it nothing was
 * lost. The control thread flushes what is old.
 */
bool ct_enable(const struct ct_cupti *api, const struct ct_wish *wish)
{
	late = (wish->flags & CT_GO_LATE) != 0;
	prepare(api, wish);
	watch_range(api, wish);
	ct_result r = api->register_callbacks(ct_pool_request, ct_complete);
	if (r != 0) {
		ct_complain_of(api, "cuptiActivityRegisterCallbacks", "", r);
		return false;
	}
	for (size_t i = 0; i < KINDS; i++)
		kind_wanted[i] = (wish->records & kinds[i].group) != 0;
	ct_want_calls(api, &wish->calls, (wish->records & CT_RECORDS_WORK) != 0);
	anchor(api, 1);
	if (!enable_kinds(api, true) || !ct_switch_start(api, wish->flags, &work)) {
		ct_disable(api, false);
		return false;
	}
	return true;
}
