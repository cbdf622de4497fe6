/*
 * Which chain belongs to which API record. The timestamp callback's answer at the start of a
 * call is the record's start, so thread and start are an exact key. translate.c asks for each
 * record of a call of the driver's, on CUPTI's threads; the control thread comes by before
 * rings are full.
 *
 * The callback is called at the end of a call as well, and then walks for nothing. So the
 * places in CUPTI from which it is called are told apart by their answers: a place whose
 * answers have been ends of records many times, and never a start, is not walked from any
 * more. If records then lack their chains, the places were misjudged, and all are walked from.
 */
#include "match.h"

#include <stdatomic.h>

#include "chains.h"
#include "clock.h"
#include "lock.h"
#include "mem.h"
#include "opencalls.h"
#include "seen.h"

#define PROBES 8u /* places in the table where a call may be */
#define SURE 16u  /* ends, before a place is believed to be called at ends only */
#define SAMPLE 16u /* calls of which one is looked at */
#define MANY 64u  /* records in a row without a chain, before something is wrong */
#define SITES CT_SITE_NONE
#define WITHIN 2u /* calls, before a place is believed to be within calls only */

/* A call whose record has not come. */
struct call {
	uint64_t word; /* 0 marks a free entry */
	uint32_t tid;
	uint32_t pad;
};

struct site {
	_Atomic uint64_t place; /* 0 marks a free entry */
	atomic_bool starts, ends;
	uint32_t starts_seen, ends_seen, within_seen;
	bool end_seen; /* an end has been, whether looked for or not */
};

static struct ct_lock lock;
static struct call *calls;
static uint32_t call_mask;
static struct site sites[SITES];
static bool judging = true; /* places may be judged */
static bool judged;         /* one has been */
static uint64_t began;      /* calls from then on have chains */
static uint64_t doubt_from, doubt_to; /* chains of calls in between are not believed */
static uint64_t last_dropped;
static uint32_t missed;
static struct {
	uint32_t tid;
	uint64_t start, end;
} latest; /* call that had its record last */
static bool end_missing; /* a call had an end that was not seen */
static atomic_bool failed, on, known; /* the last: of a place */

bool ct_match_start(size_t memory)
{
	uint32_t n = 1024;
	while (n * 2 * sizeof *calls <= memory)
		n *= 2;
	call_mask = n - 1;
	calls = ct_alloc(n * sizeof *calls);
	return calls != NULL;
}

/* From now on records are expected to have chains. */
void ct_match_begin(uint64_t now)
{
	began = now;
	atomic_store(&on, true);
}

/* Whether records have no chains, although they should. */
bool ct_match_failed(void)
{
	return atomic_load(&failed);
}

/* The number of a place in CUPTI. */
uint32_t ct_site_number(uint64_t site)
{
	for (uint32_t i = 0; i < CT_SITE_OTHER; i++) {
		uint64_t there = atomic_load_explicit(&sites[i].place, memory_order_relaxed);
		if (there == site || (there == 0 && atomic_compare_exchange_strong(&sites[i].place, &there, site)) || there == site)
			return i;
	}
	return CT_SITE_OTHER;
}

/* Whether any place is known to be called at starts of calls. */
bool ct_sites_known(void)
{
	return atomic_load_explicit(&known, memory_order_relaxed);
}

/* Whether this place is. */
bool ct_site_starts(uint32_t number)
{
	return atomic_load_explicit(&sites[number].starts, memory_order_relaxed);
}

/* Whether a place is known to be called at ends of calls only. */
bool ct_site_ends(uint32_t number)
{
	return atomic_load_explicit(&sites[number].ends, memory_order_relaxed);
}

static uint32_t place(uint32_t tid, uint64_t time, uint32_t i)
{
	uint64_t h = (time ^ (uint64_t)tid << 40) * 0x9e3779b97f4a7c15ull;
	return ((uint32_t)(h >> 32) + i) & call_mask;
}

/* Tells what is known of the places, to whoever looks for calls that have not returned. */
static void publish(void)
{
	uint32_t starts = 0, within = 0;
	bool ends = false;
	for (uint32_t i = 0; i < CT_SITE_OTHER; i++) {
		struct site *s = &sites[i];
		ends = ends || s->end_seen;
		if (s->starts_seen > 0 && s->within_seen == 0 && !s->end_seen)
			starts |= 1u << i;
		if (s->within_seen >= WITHIN && s->starts_seen == 0 && !s->end_seen)
			within |= 1u << i;
	}
	ct_open_judge(starts, within, ends && !end_missing);
}

/* Learns from a call of the callback what kind of place its place is: by the call of CUDA's around it. */
static void learn(uint32_t tid, uint64_t word)
{
	struct site *s = &sites[ct_seen_site(word)];
	uint64_t time = ct_seen_time(word);
	if (tid != latest.tid || time <= latest.start || time > latest.end)
		return;
	if (time < latest.end && s->within_seen < WITHIN)
		s->within_seen++;
	else if (time == latest.end && !s->end_seen)
		s->end_seen = true;
	else
		return;
	publish();
}

/* Keeps a call until its record comes; the oldest one gives way. Under the lock. */
static void keep(uint32_t tid, uint64_t word)
{
	learn(tid, word);
	struct call *to = NULL;
	for (uint32_t i = 0; i < PROBES; i++) {
		struct call *c = &calls[place(tid, ct_seen_time(word), i)];
		if (!to || c->word < to->word)
			to = c;
		if (to->word == 0)
			break;
	}
	to->word = word;
	to->tid = tid;
}

static uint64_t take_kept(uint32_t tid, uint64_t time)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		struct call *c = &calls[place(tid, time, i)];
		if (c->word == 0 || c->tid != tid || ct_seen_time(c->word) != time)
			continue;
		uint64_t word = c->word;
		c->word = 0;
		return word;
	}
	return 0;
}

/* As many bits of a time as a word has. */
static uint64_t as_seen(uint64_t time)
{
	return ct_seen_time(ct_seen_word(time, 0, 0));
}

/*
 * Takes the call that began or ended at that time, 0 if there is none. Records come in the order of
 * the calls of a thread, mostly, so the call is the next in the thread's ring. Under the lock.
 */
static uint64_t take(uint32_t tid, uint64_t time)
{
	time = as_seen(time);
	uint64_t word = ct_seen_find(tid, time, keep);
	return word != 0 ? word : take_kept(tid, time);
}

/* The same, on a thread whose ring may be new. */
static uint64_t take_from_any(uint32_t tid, uint64_t time)
{
	uint64_t word = take(tid, time);
	if (word != 0)
		return word;
	ct_seen_empty(keep, true);
	return take(tid, time);
}

/* Whether to look at the end of a call, too: of few, once a place is known. */
static bool looks_at_end(void)
{
	static uint32_t records;
	return judging && (!judged || ++records % SAMPLE == 0);
}

/* A call's end was not seen: that of later ones may not be, either. Calls that found no room explain it. */
static void miss_end(void)
{
	if (judged || end_missing || ct_seen_dropped() != 0)
		return;
	end_missing = true;
	publish();
}

static void judge(uint32_t tid, uint64_t word, uint64_t end)
{
	struct site *starts = &sites[ct_seen_site(word)];
	latest.tid = tid;
	latest.start = ct_seen_time(word);
	latest.end = as_seen(end);
	if (starts->starts_seen++ == 0)
		publish();
	atomic_store_explicit(&starts->starts, true, memory_order_relaxed);
	atomic_store_explicit(&known, true, memory_order_relaxed);
	atomic_store_explicit(&starts->ends, false, memory_order_relaxed);
	if (!looks_at_end())
		return;
	uint64_t at_end = take(tid, end);
	if (at_end == 0) {
		miss_end();
		return;
	}
	learn(tid, at_end);
	struct site *s = &sites[ct_seen_site(at_end)];
	if (++s->ends_seen < SURE || s->starts_seen > 0 || s == &sites[CT_SITE_OTHER])
		return;
	judged = true;
	atomic_store_explicit(&s->ends, true, memory_order_relaxed);
}

/* The record of a call that ended at that time came without its chain. Calls that found no room explain that. */
static void miss(uint64_t end)
{
	uint64_t dropped = ct_seen_dropped(), now = ct_now();
	/* The callback may have been another client's, with a clock of its own. Calls that it tells of later are believed. */
	ct_open_missed(end < now ? end : now);
	if (dropped != last_dropped)
		missed = 0;
	last_dropped = dropped;
	if (++missed < MANY)
		return;
	missed = 0;
	if (!judged) {
		atomic_store(&failed, true);
		return;
	}
	judging = judged = false;
	for (uint32_t i = 0; i < SITES; i++)
		atomic_store(&sites[i].ends, false);
}

static uint32_t chain_of(uint32_t tid, uint64_t start, uint64_t end)
{
	uint64_t word = take_from_any(tid, start);
	if (word == 0) {
		if (start > began)
			miss(end > start ? end : start);
		return 0;
	}
	missed = 0;
	judge(tid, word, end);
	if (start >= doubt_from && start <= doubt_to)
		return 0;
	uint32_t chain = ct_seen_chain(word);
	return ct_chain_send(chain) ? chain : 0;
}

/* The number of the chain above a call, by its record; 0 when there is none. */
uint32_t ct_match_chain(uint32_t tid, uint64_t start, uint64_t end)
{
	if (!atomic_load(&on))
		return 0;
	ct_lock(&lock);
	uint32_t chain = chain_of(tid, start, end);
	ct_unlock(&lock);
	return chain;
}

/* Makes room in the rings, and has new chains sent. */
void ct_match_poll(void)
{
	if (!atomic_load(&on))
		return;
	ct_lock(&lock);
	ct_seen_empty(keep, false);
	ct_chains_send();
	ct_unlock(&lock);
}

/*
 * A library was unloaded within that time: an address in a chain may have meant what has gone, or what
 * has come in its place. Later calls have chains of their own.
 */
void ct_match_doubt(uint64_t from, uint64_t to)
{
	ct_lock(&lock);
	doubt_from = from;
	doubt_to = to;
	ct_unlock(&lock);
}

/* The recorder has found out how much of chains is of use. */
void ct_match_depth(uint64_t innermost, uint32_t depth)
{
	if (atomic_load(&on))
		ct_chain_set_depth(innermost, depth);
}
