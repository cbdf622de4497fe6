/*
 * What is wanted: the calls to record, with their names, and the time up to which calls
 * count. enable.c sets it, and translate.c looks each API record up, inside CUPTI's
 * callbacks. CUPTI is asked for names alone: nothing may be switched here.
 */
#include "wanted.h"

#include <stdatomic.h>

#include "clock.h"
#include "names.h"

#define MISSES 512 /* callback IDs have gaps; so many unknown ones in a row are the end */

static _Atomic uint32_t names[CT_DOMAINS][CT_CBID_MAX]; /* number of the call's name, 0 for calls not wanted */
static bool creates_work[CT_DOMAINS][CT_CBID_MAX];      /* of wanted calls; none does when work has no records */
static bool work_wanted;
static _Atomic uint32_t calls_wanted;
static atomic_uint ranges; /* records of calls that begin a range */
static _Atomic uint64_t work_until = UINT64_MAX; /* when work's records went off; UINT64_MAX while they are on */

static void want_call(uint32_t domain, uint32_t cbid, const char *callback, const struct ct_calls *calls)
{
	char name[128];
	if (cbid >= CT_CBID_MAX || !ct_call_wanted(callback, calls))
		return;
	ct_call_name(callback, name, sizeof name);
	creates_work[domain][cbid] = work_wanted && ct_call_creates_work(callback);
	names[domain][cbid] = ct_name_number(name);
	calls_wanted += names[domain][cbid] != 0;
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

/* Called once, before any record is made; work says whether GPU work has records, too. */
void ct_want_calls(const struct ct_cupti *api, const struct ct_calls *calls, bool work)
{
	work_wanted = work;
	for (uint32_t domain = DOMAIN_DRIVER; api->get_callback_name && domain <= DOMAIN_RUNTIME; domain++)
		want_by_name(api, domain, calls);
	for (const struct ct_known_call *c = ct_known_calls; !api->get_callback_name && c->name; c++)
		want_call(c->domain, c->cbid, c->name, calls);
}

/* For a call that CUPTI refuses. */
void ct_unwant_call(uint32_t domain, uint32_t cbid)
{
	names[domain][cbid] = 0;
	calls_wanted--;
}

uint32_t ct_wanted_calls(void)
{
	return calls_wanted;
}

/* The number of the name of a wanted call, else 0. */
uint32_t ct_wanted_name(uint32_t domain, uint32_t cbid)
{
	return domain < CT_DOMAINS && cbid < CT_CBID_MAX ? names[domain][cbid] : 0;
}

bool ct_wanted_creates_work(uint32_t domain, uint32_t cbid)
{
	return domain < CT_DOMAINS && cbid < CT_CBID_MAX && creates_work[domain][cbid];
}

/* CUPTI has a record of a call that begins the range to record. */
void ct_range_began(void)
{
	atomic_fetch_add(&ranges, 1);
}

uint32_t ct_ranges_begun(void)
{
	return atomic_load(&ranges);
}

void ct_want_work(void)
{
	atomic_store(&work_until, UINT64_MAX);
}

/* The records of work are off: calls that begin later do not count. */
void ct_unwant_work(void)
{
	uint64_t none = UINT64_MAX;
	atomic_compare_exchange_strong(&work_until, &none, ct_now());
}

/* Whether a call that began then is part of the recording. */
bool ct_wanted_time(uint64_t start)
{
	return start <= atomic_load_explicit(&work_until, memory_order_relaxed);
}
