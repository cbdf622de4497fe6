/*
 * The buffers that CUPTI fills. CUPTI asks for them on any thread of the program, and
 * translate.c brings them back. Nothing here may call CUPTI or wait for another thread's
 * work.
 *
 * From CUDA 13 on each thread of the program holds a buffer, and CUPTI keeps full ones
 * until it is flushed: when CUPTI holds many, the control thread is woken to flush, and
 * the pool gives smaller ones as its memory runs out. Beyond the limit CUPTI gets
 * nothing, or, where a release before 13.0 would take that for an error, a scratch
 * buffer that several threads may share: what is written there is never looked at, its
 * length alone is counted.
 *
 * Buffers come from the program's own malloc, and what is known of them is kept apart:
 * when another CUPTI client registers its callbacks, CUPTI gives it the buffers that
 * it got from us, and such clients end with free. Leak checkers find the buffers through
 * the table.
 *
 * All of it is kept from one recording of this copy to the next: CUPTI may hold buffers meanwhile, and ask for more.
 */
#include "pool.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base.h"
#include "link.h"
#include "seen.h"

#define SIZES 3
#define MIN_BUFFER (6u << 10) /* 20 launches: 216 and 40 bytes each */

#define HELD UINT32_MAX
#define FREED ((uint8_t *)1) /* of an entry whose buffer is gone: those behind it are still found */

struct entry {
	uint8_t *buffer; /* NULL marks a free entry */
	size_t size;
	unsigned tier;
	uint32_t next; /* idle one, as its index and 1; HELD: by CUPTI */
};

/*
 * Sizes of buffers, and the sixteenths of the memory that they and larger ones may fill. Of the smallest there are so many
 * that a thousand threads and what CUPTI writes for their streams have one each before the first flush.
 */
static const struct {
	unsigned shift, sixteenths;
} tiers[SIZES] = {{0, 6}, {3, 7}, {6, 16}};

static CT_KEPT struct ct_lock lock;
static CT_KEPT struct entry *table; /* from malloc: leak checkers do not look into mapped memory */
static CT_KEPT uint32_t slots; /* a power of two, at least twice as many as there can be buffers */
static CT_KEPT uint32_t idle[SIZES]; /* the first, as its index and 1 */
static CT_KEPT size_t tier_size[SIZES], tier_limit[SIZES];
static CT_KEPT size_t used;   /* bytes allocated, of buffers that CUPTI holds or that are idle */
static CT_KEPT size_t out;    /* bytes of buffers that CUPTI holds */
static CT_KEPT size_t enough; /* of these: more, and CUPTI is flushed */
static CT_KEPT uint8_t *scratch; /* likewise from malloc */
static CT_KEPT size_t scratch_size;
static _Atomic uint64_t requests;
static CT_KEPT struct ct_pool_before former;
static CT_KEPT bool ended, left; /* the latter: to another client, who may free buffers of ours */
static CT_KEPT bool gone;        /* CUPTI is finalized: what it held is of the recording before */

static size_t at_least(size_t n, size_t least)
{
	n &= ~(size_t)7;
	return n < least ? least : n;
}

/* The entry of a buffer, or the free one where it belongs; NULL without. Under the lock. */
static struct entry *find(const uint8_t *buffer)
{
	uint64_t h = (uint64_t)(uintptr_t)buffer * 0x9e3779b97f4a7c15ull >> 32;
	for (uint32_t n = 0, i = (uint32_t)h & (slots - 1); n < slots; n++, i = (i + 1) & (slots - 1))
		if (!table[i].buffer || table[i].buffer == buffer)
			return &table[i];
	return NULL; /* long after the end of the recording */
}

static struct entry *take_idle(void)
{
	for (unsigned i = 0; i < SIZES; i++) {
		if (idle[i] == 0)
			continue;
		struct entry *e = &table[idle[i] - 1];
		idle[i] = e->next;
		e->next = HELD;
		return e;
	}
	return NULL;
}

static void put_idle(struct entry *e)
{
	e->next = idle[e->tier];
	idle[e->tier] = (uint32_t)(e - table) + 1;
}

/* The buffers of the recording before go to a new table. Under the lock. Returns the old table. */
static struct entry *move(struct entry *fresh, uint32_t count)
{
	struct entry *old = table;
	uint32_t before = old && !gone ? slots : 0;
	table = fresh, slots = count, used = out = 0;
	for (unsigned i = 0; i < SIZES; i++)
		idle[i] = 0;
	for (const struct entry *e = old; e < old + before; e++) {
		if (!e->buffer || e->buffer == FREED)
			continue;
		struct entry *to = find(e->buffer);
		*to = *e;
		used += e->size;
		if (e->next == HELD)
			out += e->size;
		else
			put_idle(to);
	}
	return old;
}

/* There are as many slots as buffers of the recording before need, too. */
static uint32_t slots_for(size_t memory)
{
	uint32_t count = 64;
	size_t buffers = memory / MIN_BUFFER;
	ct_lock(&lock);
	for (uint32_t i = 0; table && i < slots; i++)
		buffers += table[i].buffer && table[i].buffer != FREED;
	ct_unlock(&lock);
	while (count < buffers * 2)
		count *= 2;
	return count;
}

bool ct_pool_start(size_t memory, size_t buffer_size, bool null_allowed)
{
	uint32_t count = slots_for(memory);
	struct entry *fresh = ct_has_room(count * sizeof *table) ? calloc(count, sizeof *table) : NULL;
	size_t largest = memory / 4;
	if (!fresh)
		return false;
	if (buffer_size > largest)
		buffer_size = largest;
	ct_lock(&lock);
	for (unsigned i = 0; i < SIZES; i++) {
		tier_size[i] = at_least(buffer_size >> tiers[i].shift, MIN_BUFFER);
		tier_limit[i] = memory / 16 * tiers[i].sixteenths;
	}
	enough = memory / 4;
	struct entry *old = move(fresh, count);
	ended = left = gone = false;
	ct_unlock(&lock);
	free(old);
	if (null_allowed || scratch)
		return true;
	scratch_size = tier_size[SIZES - 1];
	scratch = malloc(scratch_size);
	return scratch != NULL;
}

/* Reserves memory for a new buffer and says of which size; 0 when none is left. */
static size_t reserve(unsigned *tier)
{
	for (unsigned i = 0; i < SIZES; i++) {
		if (used + tier_size[i] > tier_limit[i])
			continue;
		used += tier_size[i];
		*tier = i;
		return tier_size[i];
	}
	return 0;
}

/*
 * A new buffer, NULL without; total is the size of all. The kernel is asked first also because, where a seccomp filter
 * answers brk with an error, glibc takes that error for an address, and malloc crashes.
 */
static uint8_t *create(size_t size, unsigned tier, size_t total)
{
	uint8_t *buffer = ct_has_room(total) ? malloc(size) : NULL;
	ct_lock(&lock);
	struct entry *e = buffer ? find(buffer) : NULL;
	if (e) {
		*e = (struct entry){.buffer = buffer, .size = size, .tier = tier, .next = HELD};
	} else {
		used -= size;
		out -= size;
	}
	ct_unlock(&lock);
	return buffer;
}

/* A buffer for CUPTI, NULL without; low says that CUPTI holds many. */
static uint8_t *get(size_t *size, bool *low)
{
	unsigned tier = 0;
	ct_lock(&lock);
	struct entry *e = take_idle();
	uint8_t *buffer = e ? e->buffer : NULL;
	*size = e ? e->size : reserve(&tier);
	out += *size;
	*low = *size == 0 || out > enough;
	size_t total = used;
	ct_unlock(&lock);
	return buffer || *size == 0 ? buffer : create(*size, tier, total);
}

/* A buffer for CUPTI, NULL without. */
static uint8_t *ask(size_t *size)
{
	bool low = false;
	uint8_t *buffer = ct_here() ? get(size, &low) : NULL;
	atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed);
	if (low)
		ct_wake_flush();
	if (!buffer && ct_here())
		ct_open_missed(ct_now()); /* without a record, the end of the call may go unnoticed */
	return buffer;
}

/* CUPTI's request for a buffer; called on any thread of the program. */
void ct_pool_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	struct ct_visit v;
	*max_records = 0; /* as many as fit */
	*buffer = ct_visit(&v) ? ask(size) : NULL;
	if (!*buffer) {
		*buffer = scratch;
		*size = scratch_size;
	}
	ct_visit_end(&v);
}

/* How often CUPTI has asked. */
uint64_t ct_pool_requests(void)
{
	return atomic_load(&requests);
}

bool ct_pool_scratch(const uint8_t *buffer)
{
	return (scratch && buffer == scratch) || (former.scratch && former.scratch(buffer));
}

/*
 * Takes a buffer back. One that is not ours goes to the recording before; without one, or when it is of another client, it
 * is left alone.
 */
void ct_pool_release(uint8_t *buffer)
{
	ct_lock(&lock);
	struct entry *e = left ? NULL : find(buffer);
	bool own = e && e->buffer, over = own && ended, passes = !own && !left;
	if (own) {
		out -= e->size;
		put_idle(e);
	}
	ct_unlock(&lock);
	if (over)
		ct_pool_end();
	else if (passes && former.release)
		former.release(buffer);
}

/*
 * Another client has the buffers that CUPTI got from us: an address that comes back may be one of its own. It is
 * forgotten, too, lest a leak checker take memory of the program's for ours.
 */
void ct_pool_leave(void)
{
	ct_lock(&lock);
	left = true;
	for (uint32_t i = 0; i < slots; i++)
		if (table[i].buffer && table[i].next == HELD)
			table[i].buffer = FREED;
	ct_unlock(&lock);
}

/* Called before a recording that is not the first one of the process. The one before may be this copy's own. */
void ct_pool_after(const struct ct_pool_before *b)
{
	if (b->release != ct_pool_release)
		former = *b;
}

/* CUPTI, which is finalized, has given all buffers back. Leak checkers find those that it has not through the table. */
void ct_pool_forget(void)
{
	ct_lock(&lock);
	struct entry *all = out == 0 ? table : NULL;
	gone = true;
	if (all)
		table = NULL, slots = 0;
	ct_unlock(&lock);
	free(all);
}

/*
 * The recording is over: buffers that CUPTI does not hold are freed, and the others when they come back. A thread of the
 * program that is still on its way through CUPTI gets new ones.
 */
void ct_pool_end(void)
{
	struct entry *e;
	do {
		ct_lock(&lock);
		ended = true;
		e = take_idle();
		uint8_t *buffer = e ? e->buffer : NULL;
		if (e) {
			used -= e->size;
			e->buffer = FREED;
		}
		ct_unlock(&lock);
		free(buffer);
	} while (e);
}
