/*
 * Switching CUPTI's records on and off. main.c begins, control.c ends it; records of work go off and on meanwhile. All
 * go off again when an essential step fails. No lock may be held while CUPTI is called.
 */
#include "enable.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "calibration.h"
#include "calls.h"
#include "flush.h"
#include "link.h"
#include "load.h"
#include "nccl.h"
#include "pool.h"
#include "python.h"
#include "torch.h"
#include "queue.h"
#include "range.h"
#include "seen.h"
#include "standby.h"
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
static bool chains;        /* calls of the driver's have chains, so those of the runtime's need no records */
static bool python;        /* calls of the driver's have Python stacks */
static bool again; /* the records of work were on before: complaints begin anew */
static bool late; /* records of single calls cannot be switched on any more */
static ct_give_fn give; /* where NVTX is ours, not CUPTI's */

/* NVTX is given to this recording by a function, and not by CUPTI. */
void ct_enable_given(ct_give_fn f)
{
	give = f;
}

static bool is_given(size_t i)
{
	return give && (kinds[i].group & CT_RECORDS_NVTX);
}

/* A kind is on or off from now on. NCCL's own words are recorded with its NVTX ranges. */
static void set_on(size_t i, bool on)
{
	kind_on[i] = on;
	if (kinds[i].kind != KIND_MARKER)
		return;
	if (is_given(i))
		give(on ? &ct_standby_taker : NULL);
	else
		ct_nccl_pass(on ? ct_nccl_send : NULL);
}

/* Switches on the kinds that stay on, or the others. False when an essential one is refused. */
static bool enable_kinds(const struct ct_cupti *api, bool that_stay)
{
	for (size_t i = 0; i < KINDS; i++) {
		if (!kind_wanted[i] || kind_on[i] || kinds[i].stays != that_stay)
			continue;
		ct_result r = is_given(i) ? 0 : api->enable(kinds[i].kind);
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
	ct_link_switching(true);
	bool is = (chains || enable_calls(api, DOMAIN_RUNTIME)) && enable_calls(api, DOMAIN_DRIVER) &&
		  enable_kinds(api, false);
	ct_link_switching(false);
	if (!is)
		return false;
	ct_torch_work(true);
	if (ct_wanted_calls() == 0)
		ct_complain("no API record could be switched on", "");
	if (chains)
		ct_open_believe(ct_now());
	return ct_wanted_calls() > 0;
}

static void without_python(void)
{
	ct_queue_note(1, "Python lines are not recorded: CUPTI does not tell who calls");
}

/* The function that CUPTI asks for the time: one that looks who calls, if that is wished and possible. */
static ct_timestamp_fn timestamp(const struct ct_cupti *api, const struct ct_wish *wish)
{
	chains = (wish->flags & CT_GO_CALLERS) && api->enable_driver_api;
	python = (wish->flags & CT_GO_PYTHON) && api->enable_driver_api && ct_python_start(wish->memory_for_python);
	if ((chains || python) && !ct_walk_start(api, wish->memory_for_chains, chains, late))
		chains = python = false;
	if ((wish->flags & CT_GO_TORCH) && (chains || python))
		ct_torch_start(wish->memory_for_torch);
	return chains || python ? ct_walk_timestamp : ct_calibration_timestamp;
}

/* Must precede the first enable: CUPTI takes its clock and thread IDs then. */
static void prepare(const struct ct_cupti *api, const struct ct_wish *wish)
{
	ct_result clock = 1, thread;
	if (!(wish->flags & CT_GO_OWN_CLOCK)) {
		clock = api->register_timestamp(timestamp(api, wish));
		if (clock != 0)
			ct_complain_of(api, "cuptiActivityRegisterTimestampCallback", "", clock);
	}
	ct_calibration_begin(api, clock == 0);
	if ((thread = api->set_thread_id_type(THREAD_ID_SYSTEM)) != 0)
		ct_complain_of(api, "cuptiSetThreadIdType", "", thread);
	chains = chains && clock == 0 && thread == 0;
	python = python && clock == 0 && thread == 0;
	if (!chains && !python)
		ct_torch_end();
	if (wish->python.minor != 0 && !(python && ct_python_use(&wish->python)))
		without_python();
	if (chains || ct_python_on())
		ct_walk_begin();
	if (!chains && (wish->flags & CT_GO_CALLERS))
		ct_queue_note(0, "calls have no callers, and are named by the runtime's records: "
				 "CUPTI does not tell who calls");
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
		if (!is_given(i))
			api->disable(kinds[i].kind);
		set_on(i, false);
	}
}

/*
 * Switches the records of work off. What cannot be switched off is harmless: its
 * records go nowhere. The calls stay wanted, since records that were made before may
 * still arrive on another thread. linger: there is time for the records of calls that have yet to return from what
 * they have launched.
 */
static void disable_work(const struct ct_cupti *api, bool linger)
{
	ct_open_doubt();
	ct_torch_work(false);
	ct_link_switching(true);
	disable_kinds(api, false);
	ct_link_switching(false);
	ct_unwant_work();
	if (linger)
		ct_flush_calls();
	ct_link_switching(true);
	disable_calls(api, DOMAIN_RUNTIME);
	disable_calls(api, DOMAIN_DRIVER);
	ct_link_switching(false);
}

/*
 * When the records of work are on. The recorder may pause and resume; with a capture
 * range they are on between cudaProfilerStart and cudaProfilerStop alone, and are
 * switched in the program's own call, so that the first kernel behind Start is recorded
 * and none behind Stop.
 *
 * These calls are seen in one of two ways. CUPTI's timestamp callback, which runs in them, has the
 * control thread make the change, and waits. Where that callback does not see who calls, CUPTI calls a
 * subscriber back; but there can be only one, so a profiler in the program finds no place. If CUPTI's
 * record of a Start shows that the callback has not seen it, all is recorded from then on.
 *
 * Where the range is an NVTX range, range.c sees it begin and end, and neither is needed.
 *
 * Any thread may want a change: the control thread, or one of the program in those
 * calls. One thread at a time makes it, and goes on
 * until the wanted state is reached. The lock must not be held meanwhile.
 */
#define APPLY_WAIT (50 * CT_MS) /* for a change that another thread makes */
#define TOLD_WAIT CT_SECOND /* for the control thread, which may be flushing */

static const struct {
	uint32_t domain, cbid;
} range_calls[] = {
	{DOMAIN_RUNTIME, CBID_CUDAPROFILERSTART}, {DOMAIN_RUNTIME, CBID_CUDAPROFILERSTOP},
	{DOMAIN_DRIVER, CBID_CUPROFILERSTART}, {DOMAIN_DRIVER, CBID_CUPROFILERSTOP},
};
#define RANGE_CALLS (sizeof range_calls / sizeof range_calls[0])

static struct ct_lock lock;
static struct ct_condition changed;
static bool paused, by_range, in_range, stopped, left; /* left: CUPTI belongs to somebody else */
static bool on, applying, lingering; /* the last: see disable_work */

static const struct ct_cupti *subscribed; /* NULL without a subscription */
static void *subscriber;

static atomic_bool over;       /* nobody waits for a change any more */
static atomic_bool begins;     /* the latest of these calls that the callback has seen */
static struct ct_question changes; /* to what it wants */
static atomic_uint starts; /* that the callback has seen */

static bool wanted(void)
{
	return !stopped && !paused && (!by_range || in_range);
}

/* Waits while another thread makes a change; false when that takes too long. */
static bool wait_for_other(void)
{
	uint64_t now, deadline = ct_now() + APPLY_WAIT;
	while (applying && (now = ct_now()) < deadline)
		ct_condition_wait(&changed, &lock, deadline - now);
	return !applying;
}

/* For a person, when the records cannot be switched on again. */
static void complain(void)
{
	char words[1200];
	snprintf(words, sizeof words, "GPU work from here on is missing: %s", ct_complaints());
	ct_queue_note(1, words);
}

/* Under the lock, which is released while CUPTI is called. */
static void apply(const struct ct_cupti *api, bool linger)
{
	if (lingering || !wait_for_other())
		return; /* the other thread looks again when it has made its change */
	while (!left && on != wanted()) {
		bool to = wanted();
		applying = true;
		lingering = linger && !to;
		ct_unlock(&lock);
		if (!to)
			disable_work(api, linger);
		else if (!enable_work(api))
			complain();
		ct_lock(&lock);
		applying = lingering = false;
		on = to;
		ct_condition_tell(&changed);
	}
}

/* linger: see disable_work; never in a call of the program's own. */
static void change(const struct ct_cupti *api, bool *flag, bool value, bool linger)
{
	ct_lock(&lock);
	*flag = value;
	apply(api, linger);
	ct_unlock(&lock);
}

/* CUPTI calls it at both ends of the four calls. */
static void at_range_call(void *user, uint32_t domain, uint32_t cbid, const void *data)
{
	(void)user;
	uint32_t site;
	memcpy(&site, (const char *)data + CALLBACK_SITE, sizeof site);
	if (!ct_here())
		return;
	if (cbid == (domain == DOMAIN_DRIVER ? CBID_CUPROFILERSTOP : CBID_CUDAPROFILERSTOP)) {
		if (site != SITE_ENTER)
			return;
		change(subscribed, &in_range, false, false);
		ct_wake_flush();
	} else if (site == SITE_EXIT) {
		change(subscribed, &in_range, true, false);
	}
}

static ct_result subscribe(const struct ct_cupti *api)
{
	ct_result r = api->subscribe(&subscriber, at_range_call, NULL);
	if (r != 0)
		return r;
	subscribed = api;
	for (size_t i = 0; r == 0 && i < RANGE_CALLS; i++)
		r = api->enable_callback(1, subscriber, range_calls[i].domain, range_calls[i].cbid);
	if (r != 0) {
		api->unsubscribe(subscriber);
		subscribed = NULL;
	}
	return r;
}

static void start_range(const struct ct_cupti *api)
{
	static const char otherwise[] = ", so all is recorded, not only between cudaProfilerStart and cudaProfilerStop";
	ct_result r = watching ? 0 : subscribe(api);
	by_range = r == 0;
	if (r == 0)
		return;
	ct_complain_of(api, "cuptiSubscribe", "", r);
	ct_complain("there is another subscriber", otherwise);
}

/* An NVTX range has begun or ended. */
void ct_switch_range(const struct ct_cupti *api)
{
	ct_lock(&lock);
	in_range = ct_range_open();
	bool is = in_range;
	if (by_range)
		apply(api, false);
	ct_unlock(&lock);
	if (!is)
		ct_wake_flush();
}

/*
 * Called once, when all other records are on. Switches those of work on unless the
 * flags of the GO say otherwise; false when that cannot be.
 */
static bool start_work(const struct ct_cupti *api, uint32_t flags)
{
	paused = (flags & CT_GO_PAUSED) != 0;
	if (ct_range_wanted()) {
		by_range = true;
		ct_switch_range(api);
		return true;
	}
	if (flags & CT_GO_CAPTURE_RANGE)
		start_range(api);
	if (paused || by_range)
		return true;
	bool is = enable_work(api);
	ct_lock(&lock);
	on = is;
	ct_unlock(&lock);
	return is;
}

bool ct_switch_is_on(void)
{
	ct_lock(&lock);
	bool is = on;
	ct_unlock(&lock);
	return is;
}

/* Whether records of single calls cannot be had any more. */
bool ct_switched_late(void)
{
	return late;
}

void ct_switch_pause(const struct ct_cupti *api, bool value)
{
	change(api, &paused, value, true);
}

/* Off for good. */
static void stop_work(const struct ct_cupti *api, bool linger)
{
	change(api, &stopped, true, linger);
	atomic_store(&over, true);
	if (subscribed)
		api->unsubscribe(subscriber);
}

/*
 * Such a call has begun, on this thread: has the control thread make the change, and waits for it. CUPTI may be called
 * meanwhile, on another thread (H200, CUPTI 13.0.1).
 */
static void range_called(bool start)
{
	int before = errno;
	uint64_t deadline = ct_now() + TOLD_WAIT;
	if (start)
		atomic_fetch_add(&starts, 1);
	atomic_store(&begins, start);
	uint32_t number = ct_ask(&changes);
	while (number != 0 && !atomic_load(&over) && ct_unanswered(&changes, number) && ct_now() < deadline)
		ct_await_answer(&changes, number);
	errno = before;
}

/* On the control thread: does what a thread waits for in such a call. */
void ct_switch_poll(const struct ct_cupti *api)
{
	uint32_t number = ct_asked(&changes);
	if (!ct_unanswered(&changes, number))
		return;
	bool is = atomic_load(&begins);
	change(api, &in_range, is, false);
	ct_answer(&changes, number);
	if (!is)
		ct_wake_flush();
}

/* On the control thread, after a flush: a Start was missed if more have records than were seen. */
void ct_switch_check(const struct ct_cupti *api)
{
	if (!watching || !by_range || ct_ranges_begun() <= atomic_load(&starts))
		return;
	change(api, &by_range, false, false);
	ct_queue_note(1, "the call that begins the range to record was noticed late: GPU work of its beginning is "
			 "missing, and from here on all is recorded");
}

/* Leaves everything as it is, for good. */
void ct_switch_leave(void)
{
	ct_lock(&lock);
	left = true;
	ct_unlock(&lock);
	atomic_store(&over, true);
	ct_torch_end();
}

/* Needs frames, and records of single calls. Older releases are not known to stand a change meanwhile. */
static void watch_range(const struct ct_cupti *api, const struct ct_wish *wish)
{
	watching = chains && (wish->flags & CT_GO_CAPTURE_RANGE) && api->version >= CUPTI_V13_0 && ct_walk_watch(range_called);
}

/* Switches everything off, for good. */
void ct_disable(const struct ct_cupti *api, bool linger)
{
	stop_work(api, linger);
	ct_walk_end();
	disable_work(api, false);
	ct_link_switching(true);
	anchor(api, 0);
	disable_kinds(api, true);
	ct_link_switching(false);
}

/* CUPTI does not tell who calls after all. */
void ct_enable_without_callers(void)
{
	ct_python_end("Python lines are no longer recorded: CUPTI does not tell who calls");
	ct_torch_end();
	if (chains)
		ct_queue_note(0, "calls have no callers any more, and the names of the driver's functions: "
				 "CUPTI does not tell who calls");
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
static bool switch_on(const struct ct_cupti *api, const struct ct_wish *wish)
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
	if (!enable_kinds(api, true) || !start_work(api, wish->flags)) {
		ct_disable(api, false);
		return false;
	}
	return true;
}

/* As one switch: until the sender starts, records of the calls that are on already only pile up. */
bool ct_enable(const struct ct_cupti *api, const struct ct_wish *wish)
{
	ct_link_switching(true);
	bool is = switch_on(api, wish);
	ct_link_switching(false);
	return is;
}
