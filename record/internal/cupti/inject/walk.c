/*
 * Who calls. CUPTI asks for the time on the calling thread, at the start and at the end of each call of the driver's
 * that has a record: the callback walks up the stack there. When the record comes, its call is found by thread and
 * time.
 */
#include "walk.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "base.h"
#include "calibration.h"
#include "link.h"
#include "load.h"
#include "seen.h"
#include "stack.h"
#include "torch.h"
#include "wire.h"

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
#define PROBES 32u /* places in the table where a call may be */
#define SURE 16u  /* ends, before a place is believed to be called at ends only */
#define SAMPLE 16u /* calls of which one is looked at */
#define MANY 64u  /* records in a row without a chain, before something is wrong */
#define SITES CT_SITE_NONE
#define WITHIN 2u /* calls, before a place is believed to be within calls only */

/* A call whose record has not come. */
struct call {
	struct ct_seen seen; /* word 0 marks a free entry */
	uint32_t tid;
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
static unsigned long long unloads; /* by the dynamic linker's count */
static uint64_t unloads_known;     /* the time of that count */
static uint32_t missed;
static struct {
	uint32_t tid;
	uint64_t start, end;
} latest; /* call that had its record last */
static bool end_missing; /* a call had an end that was not seen */
static atomic_bool failed, matching, start_known; /* the last: of a place */

static bool match_start(size_t memory)
{
	uint32_t n = 1024;
	while (n * 2 * sizeof *calls <= memory)
		n *= 2;
	call_mask = n - 1;
	calls = ct_alloc(n * sizeof *calls);
	return calls != NULL;
}

/* From now on records are expected to have chains. */
static void match_begin(uint64_t now)
{
	began = now;
	atomic_store(&matching, true);
}

/* The number of a place in CUPTI. */
static uint32_t site_number(uint64_t site)
{
	for (uint32_t i = 0; i < CT_SITE_OTHER; i++) {
		uint64_t there = atomic_load_explicit(&sites[i].place, memory_order_relaxed);
		if (there == site || (there == 0 && atomic_compare_exchange_strong(&sites[i].place, &there, site)) || there == site)
			return i;
	}
	return CT_SITE_OTHER;
}

/* Whether any place is known to be called at starts of calls. */
static bool sites_known(void)
{
	return atomic_load_explicit(&start_known, memory_order_relaxed);
}

/* Whether this place is. */
static bool site_starts(uint32_t number)
{
	return atomic_load_explicit(&sites[number].starts, memory_order_relaxed);
}

/* Whether a place is known to be called at ends of calls only. */
static bool site_ends(uint32_t number)
{
	return atomic_load_explicit(&sites[number].ends, memory_order_relaxed);
}

/*
 * Calls come in regular steps of time, on several threads: one multiplication puts whole series of them next to each
 * other.
 */
static uint32_t place(uint32_t tid, uint64_t time, uint32_t i)
{
	uint64_t h = ct_mix(ct_mix(tid, time), 0);
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
static void keep(uint32_t tid, struct ct_seen seen)
{
	uint64_t word = seen.word;
	learn(tid, word);
	struct call *to = NULL;
	for (uint32_t i = 0; i < PROBES; i++) {
		struct call *c = &calls[place(tid, ct_seen_time(word), i)];
		if (!to || c->seen.word < to->seen.word)
			to = c;
		if (to->seen.word == 0)
			break;
	}
	if (to->seen.word != 0)
		ct_seen_drop(ct_seen_time(to->seen.word));
	to->seen = seen;
	to->tid = tid;
}

static struct ct_seen take_kept(uint32_t tid, uint64_t time)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		struct call *c = &calls[place(tid, time, i)];
		if (c->seen.word == 0 || c->tid != tid || ct_seen_time(c->seen.word) != time)
			continue;
		struct ct_seen seen = c->seen;
		c->seen.word = 0;
		return seen;
	}
	return (struct ct_seen){0};
}

/*
 * Takes the call that began or ended at that time, word 0 if there is none. Records come in the order of
 * the calls of a thread, mostly, so the call is the next in the thread's ring. Under the lock.
 */
static struct ct_seen take(uint32_t tid, uint64_t time)
{
	time = ct_seen_cut(time);
	struct ct_seen seen = ct_seen_find(tid, time, keep);
	return seen.word != 0 ? seen : take_kept(tid, time);
}

/* The same, on a thread whose ring may be new. */
static struct ct_seen take_from_any(uint32_t tid, uint64_t time)
{
	struct ct_seen seen = take(tid, time);
	if (seen.word != 0)
		return seen;
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
static void miss_end(uint64_t end)
{
	if (judged || end_missing || ct_seen_may_lack(end))
		return;
	end_missing = true;
	publish();
}

static void judge(uint32_t tid, uint64_t word, uint64_t end)
{
	struct site *starts = &sites[ct_seen_site(word)];
	latest.tid = tid;
	latest.start = ct_seen_time(word);
	latest.end = ct_seen_cut(end);
	if (starts->starts_seen++ == 0)
		publish();
	atomic_store_explicit(&starts->starts, true, memory_order_relaxed);
	atomic_store_explicit(&start_known, true, memory_order_relaxed);
	atomic_store_explicit(&starts->ends, false, memory_order_relaxed);
	if (!looks_at_end())
		return;
	uint64_t at_end = take(tid, end).word;
	if (at_end == 0) {
		miss_end(end);
		return;
	}
	learn(tid, at_end);
	struct site *s = &sites[ct_seen_site(at_end)];
	if (++s->ends_seen < SURE || s->starts_seen > 0 || s == &sites[CT_SITE_OTHER])
		return;
	judged = true;
	atomic_store_explicit(&s->ends, true, memory_order_relaxed);
}

/* The record of a call came without its chain, unless it found no room. */
static void miss(uint64_t start, uint64_t end)
{
	uint64_t now = ct_now();
	/* The callback may have been another client's, with a clock of its own. Calls that it tells of later are believed. */
	ct_open_missed(end < now ? end : now);
	if (ct_seen_may_lack(start) || ++missed < MANY)
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

static uint32_t chain_of(uint64_t word, uint64_t start)
{
	uint32_t chain = ct_seen_chain(word);
	if (chain == 0 || (start >= doubt_from && start <= doubt_to))
		return 0;
	return ct_chain_send(chain) ? chain : 0;
}

static uint32_t python_of(uint32_t python)
{
	return python == CT_PYTHON_LOST || ct_python_send(python) ? python : CT_PYTHON_LOST;
}

static uint32_t operators_of(uint32_t operators)
{
	return operators == CT_TORCH_LOST || ct_torch_send(operators) ? operators : CT_TORCH_LOST;
}

static struct ct_above above(uint32_t tid, uint64_t start, uint64_t end)
{
	struct ct_seen seen = take_from_any(tid, start);
	if (seen.word == 0) {
		if (start > began)
			miss(start, end > start ? end : start);
		return (struct ct_above){0};
	}
	missed = 0;
	judge(tid, seen.word, end);
	return (struct ct_above){.chain = chain_of(seen.word, start), .python = python_of(seen.python),
				 .operators = operators_of(seen.operators)};
}

/* What was above a call, by its record. */
struct ct_above ct_match_call(uint32_t tid, uint64_t start, uint64_t end)
{
	if (!atomic_load(&matching))
		return (struct ct_above){0};
	ct_lock(&lock);
	struct ct_above found = above(tid, start, end);
	ct_unlock(&lock);
	return found;
}

/* Makes room in the rings, and has new chains sent. */
static void match_poll(void)
{
	if (!atomic_load(&matching))
		return;
	ct_lock(&lock);
	ct_seen_empty(keep, false);
	ct_chains_send();
	ct_torch_send_spans(false);
	ct_unlock(&lock);
}

/* Has sent what else threads have recorded so far. */
void ct_walk_flush(void)
{
	ct_lock(&lock);
	ct_torch_send_spans(true);
	ct_unlock(&lock);
}

/*
 * So many libraries had been unloaded at a time. When there are more than before, an address in a chain of a call in
 * between may have meant what has gone, or what has come in its place. Later calls have chains of their own. The control
 * thread and the one that exits may both look.
 */
static void match_unloads(unsigned long long count, uint64_t time)
{
	ct_lock(&lock);
	if (count > unloads) {
		ct_chains_unloaded();
		doubt_from = unloads_known;
		doubt_to = ct_now();
	}
	if (count >= unloads) {
		unloads = count;
		unloads_known = time;
	}
	ct_unlock(&lock);
}

/* The recorder has found out how much of chains is of use. */
void ct_match_depth(uint64_t innermost, uint32_t depth)
{
	if (atomic_load(&matching))
		ct_chain_set_depth(innermost, depth);
}

/*
 * The walk, in CUPTI's timestamp callback.
 * libcupti and libcuda keep frame pointers, and so does the runtime, so the frames lead from here to
 * the program:
 *
 *   this callback ← libcupti … ← libcuda … ← [a0] the caller of cuLaunchKernel
 *                                            [a1] … the runtime's functions, the program
 *
 * The return addresses a0, a1 and so on are the chain. Where a function kept something else in the frame
 * pointer, addresses are nonsense: the recorder proves each of them before it is believed.
 * Python's own frames (python.c) may be wanted without chains.
 *
 * This is the inside of a CUDA call, for every launch of the program: nothing may fault,
 * wait, allocate, take a lock or call the dynamic linker.
 */
#define INNER_MAX 48 /* frames of libcupti and libcuda */
#define RANGES 4
#define EARLY 100 /* calls before the first flush */
#define LOWEST 0x10000u /* nothing is mapped below */

/* The code of a library. */
struct code {
	uintptr_t inside; /* an address in it, by which it is found */
	unsigned count;
	uintptr_t from[RANGES], to[RANGES];
};

static struct code cupti_code, driver_code;
static struct {
	uintptr_t from, to;
} range_calls[2]; /* the driver's functions that begin and end a range; none while to is 0 */
static void (*range_called)(bool start);
static atomic_bool walking;
static bool chains; /* are wanted */
static bool runtime; /* calls of the runtime's have records, and are walked from, too: an armed process */

static bool in(const struct code *c, uintptr_t address)
{
	for (unsigned i = 0; i < c->count; i++)
		if (address >= c->from[i] && address < c->to[i])
			return true;
	return false;
}

static int find_code(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	struct code found = {.inside = ((struct code *)arg)->inside};
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || found.count == RANGES)
			continue;
		found.from[found.count] = info->dlpi_addr + p->p_vaddr;
		found.to[found.count] = found.from[found.count] + p->p_memsz;
		found.count++;
	}
	if (!in(&found, found.inside))
		return 0;
	*(struct code *)arg = found;
	return 1;
}

/* Called once, before the callback is registered; false when there can be neither chains nor Python frames. */
bool ct_walk_start(const struct ct_cupti *api, size_t memory, bool want_chains, bool want_runtime)
{
	chains = want_chains;
	runtime = want_runtime;
	void *driver = ct_load_driver_symbol("cuInit");
	memcpy(&cupti_code.inside, &api->flush_all, sizeof cupti_code.inside);
	driver_code.inside = (uintptr_t)driver;
	if (!driver || !dl_iterate_phdr(find_code, &cupti_code) || !dl_iterate_phdr(find_code, &driver_code))
		return false;
	unloads_known = ct_now();
	unloads = ct_load_counts().unloads;
	return (!chains || ct_chains_start()) && match_start(memory / 3) && ct_seen_start(memory);
}

bool ct_match_runtime(void)
{
	return runtime;
}

void ct_walk_begin(void)
{
	match_begin(ct_now());
	atomic_store(&walking, true);
}

void ct_walk_end(void)
{
	ct_open_doubt();
	atomic_store(&walking, false);
}

/* Whether records have had no chains since the last look, although they should. */
bool ct_match_failed(void)
{
	return atomic_exchange(&failed, false) && atomic_load(&walking);
}

void ct_walk_forked(void)
{
	ct_open_forked();
	ct_walk_end();
}

/* For the control thread now and then, before flushes too, and for the one that exits. */
void ct_walk_poll(void)
{
	uint64_t before = ct_now();
	ct_python_poll();
	if (!atomic_load(&walking))
		return;
	match_unloads(ct_load_counts().unloads, before);
	match_poll();
}

/*
 * Goes from a frame of libcupti's to the innermost return address outside of libcupti and libcuda. inner
 * is the one before: it is in the function of the driver's that was called.
 */
static bool leave_driver(struct ct_view *v, uintptr_t *frame, uintptr_t *address, uintptr_t *inner)
{
	*inner = 0;
	for (int i = 0; i < INNER_MAX; i++) {
		if (in(&driver_code, *address))
			*inner = *address;
		else if (!in(&cupti_code, *address))
			return *inner != 0 && *address >= LOWEST;
		if (!ct_view_frame(v, *frame, frame, address))
			return false;
	}
	return false;
}

/* Collects the chain above the innermost address, as far as it is of use. */
static uint32_t collect(struct ct_view *v, uintptr_t frame, uint64_t *chain)
{
	uint32_t known = ct_chain_depth(chain[0]), count = 1;
	uint32_t most = known ? known : CT_CHAIN_MAX;
	uintptr_t address;
	for (; count < most && ct_view_frame(v, frame, &frame, &address) && address >= LOWEST; count++)
		chain[count] = address;
	return count;
}

/* Records tell starts of calls from what else CUPTI asks the time for: there should soon be some. */
static void hasten(void)
{
	static atomic_uint early;
	if (!sites_known() && atomic_fetch_add_explicit(&early, 1, memory_order_relaxed) == EARLY)
		ct_wake_flush();
}

/* count is 0 where chains are not wanted. */
static void add(struct ct_thread *t, uint64_t now, uint32_t site, uint64_t inner, const uint64_t *chain, uint32_t count,
		uint32_t python, uint32_t operators)
{
	bool fresh = false;
	uint32_t number = count > 0 ? ct_chain_number(inner, chain, count, &fresh) : 0;
	if (number == 0 && count > 0) {
		ct_seen_drop(now);
		return;
	}
	int before = errno;
	bool wake = ct_seen_add(t, (struct ct_seen){ct_seen_word(now, site, number), python, operators});
	if (fresh && site_starts(site)) {
		ct_chain_due(number);
		wake = wake || ct_chain_depth(chain[0]) == 0; /* the recorder says it when it knows the chain */
	}
	if (wake)
		ct_wake_look();
	hasten();
	errno = before;
}

/*
 * The place in CUPTI from which this callback was called; frame becomes that above it, and address is
 * its return address. False when it cannot be told.
 */
static bool find_site(struct ct_view *v, uintptr_t *frame, uintptr_t *address, uint32_t *site)
{
	uintptr_t first;
	*site = CT_SITE_OTHER;
	if (!ct_view_frame(v, *frame, frame, &first) || !in(&cupti_code, first) || !ct_view_frame(v, *frame, frame, address))
		return false;
	*site = site_number(first ^ (uint64_t)*address << 16);
	return true;
}

/*
 * Has called run in each call of cuProfilerStart and cuProfilerStop, before the driver does anything, on the
 * calling thread. These calls must have a record. False when they would not be known.
 */
bool ct_walk_watch(void (*called)(bool start))
{
	static const char *const names[] = {"cuProfilerStart", "cuProfilerStop"};
	range_called = called;
	for (int i = 0; i < 2; i++)
		if (!ct_load_driver_code(names[i], &range_calls[i].from, &range_calls[i].to))
			return false;
	return true;
}

/* Once more at the end of the first of these calls, whose place in CUPTI is not known yet. */
static void tell_range(uintptr_t inner)
{
	for (int i = 0; i < 2; i++)
		if (inner > range_calls[i].from && inner <= range_calls[i].to)
			range_called(i == 0);
}

/*
 * Whether the return addresses above are of use: to learn who calls, or that it is a call of the driver's. Records have told that
 * of a place at which calls are known to begin. Where calls of the runtime's count, all calls do until then.
 */
static bool asks_who(uint32_t site)
{
	return chains || range_called || !(runtime || site_starts(site));
}

static void look(struct ct_thread *t, uint64_t now, uintptr_t frame)
{
	struct ct_view v;
	uintptr_t address = 0, inner = 0;
	uint64_t chain[CT_CHAIN_MAX];
	uint32_t site, count, python, operators;
	uintptr_t ours = frame;
	ct_view_begin(&v, &t->home, frame);
	if (!find_site(&v, &frame, &address, &site) || site_ends(site) ||
	    (asks_who(site) && !leave_driver(&v, &frame, &address, &inner))) {
		ct_open_pass(t->open, site, now);
		return;
	}
	python = ct_python_number(&t->python, &t->home, ours);
	operators = ct_torch_number(&python);
	chain[0] = address;
	count = chains ? collect(&v, frame, chain) : 0;
	if (chains)
		ct_open_enter(t->open, site, now, inner, chain, count, ct_chain_epoch());
	add(t, now, site, inner, chain, count, python, operators);
	if (range_called)
		tell_range(inner);
}

__attribute__((noinline)) static void seen(uint64_t now, uintptr_t frame)
{
	struct ct_thread *t = ct_seen_thread();
	if (!t) {
		ct_seen_drop(now);
		return;
	}
	if (t->busy)
		return;
	t->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	look(t, now, frame);
	atomic_signal_fence(memory_order_seq_cst);
	t->busy = false;
}

/* The function that CUPTI calls to learn the time. */
uint64_t ct_walk_timestamp(void)
{
	uint64_t now = ct_calibration_timestamp();
	if (atomic_load_explicit(&walking, memory_order_relaxed))
		seen(now, (uintptr_t)__builtin_frame_address(0));
	return now;
}
