/*
 * When the records of work are on. The recorder may pause and resume; with a capture
 * range they are on between cudaProfilerStart and cudaProfilerStop alone, and are
 * switched in the program's own call, so that the first kernel behind Start is recorded
 * and none behind Stop.
 *
 * These calls are seen in one of three ways. CUPTI calls a subscriber back; but there can
 * be only one, so a profiler in the program would find no place. Or the recorder has a
 * probe on the driver's two functions, by which a thread that enters one gets the exit
 * signal. Its handler has the control thread make the change, and waits. Or CUPTI's timestamp callback,
 * which runs in these calls, does the same. The subscription
 * ends when the recorder says that it has that probe, is not made where the callback sees the calls, and comes
 * (back) if CUPTI's record of a Start shows that it was not seen.
 *
 * Where the range is an NVTX range, range.c sees it begin and end, and neither is needed.
 *
 * Any thread may want a change: the control thread, or one of the program in those
 * calls. One thread at a time makes it, by the functions that enable.c gave, and goes on
 * until the wanted state is reached. The lock must not be held meanwhile.
 */
#include "switch.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base.h"
#include "calls.h"
#include "link.h"
#include "load.h"
#include "queue.h"
#include "range.h"
#include "wire.h"

#define APPLY_WAIT (50 * CT_MS) /* for a change that another thread makes */
#define TOLD_WAIT CT_SECOND /* for the control thread, which may be flushing */
#define TOLD_SLICE (10 * CT_MS) /* between looks */
#define ENTRY 16 /* bytes of code in which a thread is that has just entered a function */

static const char *const range_calls[] = {"cudaProfilerStart", "cudaProfilerStop", "cuProfilerStart", "cuProfilerStop"};
#define RANGE_CALLS (sizeof range_calls / sizeof range_calls[0])
#define IS_STOP(i) ((i) % 2 == 1)

static struct ct_lock lock;
static struct ct_condition changed;
static bool paused, by_range, in_range, stopped, left; /* left: CUPTI belongs to somebody else */
static bool on, applying, lingering; /* the last: see struct ct_work_switch */
static struct ct_work_switch work;

static const struct ct_cupti *subscribed; /* NULL without a subscription */
static void *subscriber;
static uint32_t range_cbids[RANGE_CALLS];

static uintptr_t range_start, range_stop; /* the driver's functions; 0 if unknown */
static bool watched;           /* the timestamp callback sees these calls */
static atomic_bool told;       /* calls of these are signalled or seen, and there is no subscription */
static atomic_bool told_range; /* as the latest signal has it */
static _Atomic uint32_t signals, answered; /* the second is a futex */
static atomic_uint starts; /* that were seen */

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
	static const char head[] = "GPU work from here on is missing: ";
	const char *why = ct_complaints();
	struct {
		struct ct_note note;
		char words[sizeof head - 1];
	} m = {.note = {.severity = 1, .text_len = (uint32_t)(sizeof m.words + strlen(why))}};
	memcpy(m.words, head, sizeof m.words);
	ct_queue_message(CT_MSG_NOTE, &m, sizeof m.note + sizeof m.words, why, strlen(why));
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
			work.off(api, linger);
		else if (!work.on(api))
			complain();
		ct_lock(&lock);
		applying = lingering = false;
		on = to;
		ct_condition_tell(&changed);
	}
}

/* linger: see struct ct_work_switch; never in a call of the program's own. */
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
	for (size_t i = 0; i < RANGE_CALLS; i++) {
		if (domain != (i < 2 ? DOMAIN_RUNTIME : DOMAIN_DRIVER) || cbid != range_cbids[i])
			continue;
		if (domain == DOMAIN_DRIVER && !IS_STOP(i) && site == SITE_EXIT)
			atomic_fetch_add(&starts, 1);
		if (IS_STOP(i) && site == SITE_ENTER) {
			change(subscribed, &in_range, false, false);
			ct_wake_flush();
		} else if (!IS_STOP(i) && site == SITE_EXIT) {
			change(subscribed, &in_range, true, false);
		}
	}
}

static void find_range_calls(const struct ct_cupti *api)
{
	for (uint32_t domain = DOMAIN_DRIVER; domain <= DOMAIN_RUNTIME; domain++) {
		for (uint32_t cbid = 1; cbid < CT_CBID_MAX; cbid++) {
			const char *name = NULL;
			if (api->get_callback_name(domain, cbid, &name) != 0 || !name)
				continue;
			size_t base = ct_call_base(name);
			for (size_t i = 0; i < RANGE_CALLS; i++)
				if (strlen(range_calls[i]) == base && memcmp(range_calls[i], name, base) == 0)
					range_cbids[i] = cbid;
		}
	}
}

static ct_result subscribe(const struct ct_cupti *api)
{
	ct_result r = api->subscribe(&subscriber, at_range_call, NULL);
	if (r != 0)
		return r;
	subscribed = api;
	for (size_t i = 0; r == 0 && i < RANGE_CALLS; i++)
		if (range_cbids[i])
			r = api->enable_callback(1, subscriber, i < 2 ? DOMAIN_RUNTIME : DOMAIN_DRIVER, range_cbids[i]);
	if (r != 0) {
		api->unsubscribe(subscriber);
		subscribed = NULL;
	}
	return r;
}

static void start_range(const struct ct_cupti *api)
{
	static const char otherwise[] = ", so all is recorded, not only between cudaProfilerStart and cudaProfilerStop";
	if (!api->subscribe || !api->unsubscribe || !api->enable_callback || !api->get_callback_name) {
		ct_complain("this CUPTI has no callbacks", otherwise);
		return;
	}
	find_range_calls(api);
	range_start = (uintptr_t)ct_load_driver_symbol("cuProfilerStart");
	range_stop = (uintptr_t)ct_load_driver_symbol("cuProfilerStop");
	atomic_store(&told, watched);
	ct_result r = watched ? 0 : subscribe(api);
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
bool ct_switch_start(const struct ct_cupti *api, uint32_t flags, const struct ct_work_switch *w)
{
	work = *w;
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
	bool is = work.on(api);
	ct_lock(&lock);
	on = is;
	ct_unlock(&lock);
	return is;
}

/* Switches the records of work on once more where they are on, since more of them are wanted. */
void ct_switch_renew(const struct ct_cupti *api)
{
	ct_lock(&lock);
	bool renew = wait_for_other() && on && !left;
	applying = applying || renew;
	ct_unlock(&lock);
	if (!renew)
		return;
	if (!work.on(api))
		complain();
	ct_lock(&lock);
	applying = false;
	ct_condition_tell(&changed);
	apply(api, false);
	ct_unlock(&lock);
}

bool ct_switch_is_on(void)
{
	ct_lock(&lock);
	bool is = on;
	ct_unlock(&lock);
	return is;
}

void ct_switch_pause(const struct ct_cupti *api, bool value)
{
	change(api, &paused, value, true);
}

/* Off for good. */
void ct_switch_stop(const struct ct_cupti *api, bool linger)
{
	change(api, &stopped, true, linger);
	if (subscribed && !atomic_exchange(&told, false))
		api->unsubscribe(subscriber);
}

/* The recorder signals calls that begin or end the range: nobody need be called back. */
void ct_switch_told(const struct ct_cupti *api)
{
	if (!subscribed || !range_start || !range_stop || atomic_exchange(&told, true))
		return;
	api->unsubscribe(subscriber);
}

static bool unanswered(uint32_t number)
{
	return atomic_load(&told) && (int32_t)(atomic_load(&answered) - number) < 0;
}

static void have_answered(uint32_t number)
{
	uint64_t deadline = ct_now() + TOLD_WAIT;
	while (unanswered(number) && ct_now() < deadline) {
		uint32_t seen = atomic_load(&answered);
		if (unanswered(number))
			ct_word_wait(&answered, seen, TOLD_SLICE);
	}
}

/* Has the control thread make the change, and waits for it. */
static void call_control(bool start)
{
	int before = errno;
	if (start)
		atomic_fetch_add(&starts, 1);
	atomic_store(&told_range, start);
	uint32_t number = atomic_fetch_add(&signals, 1) + 1;
	if (ct_wake_handover())
		have_answered(number);
	errno = before;
}

/* Called before the records are on: CUPTI's timestamp callback sees the calls that begin and end the range. */
void ct_switch_watched(void)
{
	watched = true;
}

/* Such a call has begun, on this thread. CUPTI may be called meanwhile, on another one (H200, CUPTI 13.0.1). */
void ct_switch_called(bool start)
{
	if (atomic_load(&told))
		call_control(start);
}

/*
 * A thread got the exit signal there. False if that is neither function; otherwise the records
 * of work have been switched when it returns. Called in a signal handler.
 */
bool ct_switch_at(uintptr_t pc)
{
	bool start = range_start && pc - range_start < ENTRY;
	if (!start && (!range_stop || pc - range_stop >= ENTRY))
		return false;
	if (!atomic_load(&told))
		return true; /* the subscriber does it */
	call_control(start);
	return true;
}

/* On the control thread: does what a signalled thread waits for. */
void ct_switch_poll(const struct ct_cupti *api)
{
	uint32_t number = atomic_load(&signals);
	if (number == atomic_load(&answered))
		return;
	bool begins = atomic_load(&told_range);
	change(api, &in_range, begins, false);
	atomic_store(&answered, number);
	ct_word_wake(&answered);
	if (!begins)
		ct_wake_flush();
}

/* On the control thread, after a flush: a Start was missed if more have records than were seen. */
void ct_switch_check(const struct ct_cupti *api)
{
	static const char words[] = "the call that begins the range to record was noticed late: GPU work of its beginning is missing";
	struct ct_note note = {.severity = 1, .text_len = sizeof words - 1};
	if (!atomic_load(&told) || ct_ranges_begun() <= atomic_load(&starts))
		return;
	atomic_store(&told, false);
	subscribe(api);
	change(api, &in_range, true, false);
	ct_queue_message(CT_MSG_NOTE, &note, sizeof note, words, sizeof words - 1);
}

/* Leaves everything as it is, for good. */
void ct_switch_leave(void)
{
	ct_lock(&lock);
	left = true;
	atomic_store(&told, false);
	ct_unlock(&lock);
}
