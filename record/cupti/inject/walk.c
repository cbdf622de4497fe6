/*
 * CUPTI's timestamp callback, which looks who called. CUPTI asks for the time on the calling
 * thread, at the start and at the end of each call of the driver's that has a record.
 * libcupti and libcuda keep frame pointers, and so does the runtime, so the frames lead from here to
 * the program:
 *
 *   this callback ← libcupti … ← libcuda … ← [a0] the caller of cuLaunchKernel
 *                                            [a1] … the runtime's functions, the program
 *
 * The return addresses a0, a1 and so on are the chain. Where a function kept something else in the frame
 * pointer, addresses are nonsense: the recorder proves each of them before it is believed.
 *
 * This is the inside of a CUDA call, for every launch of the program: nothing may fault,
 * wait, allocate, take a lock or call the dynamic linker.
 */
#include "walk.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "calibration.h"
#include "chains.h"
#include "clock.h"
#include "load.h"
#include "match.h"
#include "opencalls.h"
#include "seen.h"
#include "stack.h"
#include "wake.h"
#include "wire.h"

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
static atomic_bool on;
static unsigned long long unloads; /* by the dynamic linker's count */
static uint64_t unloads_known;     /* the time of that count */

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

static int count_unloads(struct dl_phdr_info *info, size_t size, void *arg)
{
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
		memcpy(arg, &info->dlpi_subs, sizeof info->dlpi_subs);
	return 1;
}

/* Called once, before the callback is registered; false when there can be no chains. */
bool ct_walk_start(const struct ct_cupti *api, size_t memory)
{
	void *driver = ct_load_driver_symbol("cuInit");
	memcpy(&cupti_code.inside, &api->flush_all, sizeof cupti_code.inside);
	driver_code.inside = (uintptr_t)driver;
	if (!driver || !dl_iterate_phdr(find_code, &cupti_code) || !dl_iterate_phdr(find_code, &driver_code))
		return false;
	unloads_known = ct_now();
	dl_iterate_phdr(count_unloads, &unloads);
	return ct_chains_start() && ct_match_start(memory / 3) && ct_seen_start(memory / 3 * 2);
}

void ct_walk_begin(void)
{
	ct_match_begin(ct_now());
	atomic_store(&on, true);
}

void ct_walk_end(void)
{
	ct_open_doubt();
	atomic_store(&on, false);
}

void ct_walk_forked(void)
{
	ct_open_forked();
	ct_walk_end();
}

/* For the control thread now and then, before flushes too, and for the one that exits. */
void ct_walk_poll(void)
{
	unsigned long long count = 0;
	uint64_t before = ct_now();
	if (!atomic_load(&on))
		return;
	dl_iterate_phdr(count_unloads, &count);
	if (count != unloads) {
		ct_chains_unloaded();
		ct_match_doubt(unloads_known, ct_now());
	}
	unloads = count;
	unloads_known = before;
	ct_match_poll();
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
	if (!ct_sites_known() && atomic_fetch_add_explicit(&early, 1, memory_order_relaxed) == EARLY)
		ct_wake_flush();
}

static void add(struct ct_thread *t, uint64_t now, uint32_t site, const uint64_t *chain, uint32_t count)
{
	bool fresh;
	uint32_t number = ct_chain_number(chain, count, &fresh);
	if (number == 0) {
		ct_seen_drop();
		return;
	}
	int before = errno;
	bool wake = ct_seen_add(t, ct_seen_word(now, site, number));
	if (fresh && ct_site_starts(site)) {
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
	*site = ct_site_number(first ^ (uint64_t)*address << 16);
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
	for (int i = 0; range_called && i < 2; i++)
		if (inner > range_calls[i].from && inner <= range_calls[i].to)
			range_called(i == 0);
}

static void look(struct ct_thread *t, uint64_t now, uintptr_t frame)
{
	struct ct_view v;
	uintptr_t address, inner;
	uint64_t chain[CT_CHAIN_MAX];
	uint32_t site, count;
	ct_view_begin(&v, &t->home, frame);
	if (!find_site(&v, &frame, &address, &site) || ct_site_ends(site) || !leave_driver(&v, &frame, &address, &inner)) {
		ct_open_pass(t->open, site, now);
		return;
	}
	chain[0] = address;
	count = collect(&v, frame, chain);
	ct_open_enter(t->open, site, now, inner, chain, count, ct_chain_epoch());
	add(t, now, site, chain, count);
	tell_range(inner);
}

__attribute__((noinline)) static void seen(uint64_t now, uintptr_t frame)
{
	struct ct_thread *t = ct_seen_thread();
	if (!t) {
		ct_seen_drop();
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
	if (atomic_load_explicit(&on, memory_order_relaxed))
		seen(now, (uintptr_t)__builtin_frame_address(0));
	return now;
}
