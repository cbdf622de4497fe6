/*
 * What is noted inside CUDA calls, of who calls: calls that have begun, chains of return addresses, and calls of
 * CUPTI's timestamp callback. walk.c writes it on the threads of the program: nothing there may wait or take a lock,
 * and only a thread's first call may allocate. One thread at a time takes from it, for walk.c too.
 */
#include "seen.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base.h"
#include "queue.h"

/*
 * The calls that have begun, in memory that the recorder reads when the process has ended: the call in
 * which a thread was killed has no record.
 *
 * A thread notes when CUPTI's callback was last called from each place in CUPTI. The thread is in a
 * call while the latest of these places is one at which calls begin, places within calls aside. Which
 * places those are is judged by walk.c, and told by ct_open_judge at any time: the recorder judges
 * last. A place of which nothing is known closes a call, so a call that has returned is never open.
 */
static struct ct_shared *shared; /* NULL without such memory */
static bool has_seen;            /* there is memory for what was seen behind it */

void ct_open_start(struct ct_shared *memory, bool seen)
{
	shared = memory;
	has_seen = seen;
	ct_open_doubt();
}

/* In a forked child: the memory is the parent's. */
void ct_open_forked(void)
{
	shared = NULL;
}

/* Calls that begin from then on are believed to be open as long as no place says otherwise. */
void ct_open_believe(uint64_t from)
{
	if (shared)
		atomic_store(&shared->from, from);
}

/* Ends of calls may go unnoticed from now on. */
void ct_open_doubt(void)
{
	ct_open_believe(UINT64_MAX);
}

/* The end of a call may have gone unnoticed at that time, or before. */
void ct_open_missed(uint64_t time)
{
	uint64_t from = shared ? atomic_load(&shared->from) : time;
	while (from < time && !atomic_compare_exchange_weak(&shared->from, &from, time))
		;
}

/* Tells at which places calls begin, and which are within calls; ends says that their ends are noticed. */
void ct_open_judge(uint32_t starts, uint32_t inside, bool ends)
{
	if (shared)
		atomic_store(&shared->places, starts | (uint64_t)inside << 16 | (uint64_t)ends << 32);
}

/* The entry of a thread; NULL when there is none for it. */
static struct ct_open *open_claim(uint32_t index, uint32_t tid)
{
	if (!shared || index >= CT_OPEN_CALLS)
		return NULL;
	struct ct_open *o = &shared->calls[index];
	for (uint32_t i = 0; i < CT_OPEN_PLACES; i++)
		atomic_store_explicit(&o->last[i], 0, memory_order_relaxed);
	atomic_store(&o->tid, tid);
	return o;
}

/* The thread ends. */
static void open_release(struct ct_open *o, uint64_t now)
{
	if (!shared || !o)
		return;
	ct_open_pass(o, CT_OPEN_PLACES - 1, now);
	atomic_store(&o->tid, 0);
}

/* A call begins, perhaps; else the place is within it, and who called is the same. */
void ct_open_enter(struct ct_open *o, uint32_t site, uint64_t now, uint64_t inner, const uint64_t *chain, uint32_t count,
		   uint32_t epoch)
{
	if (!o)
		return;
	uint32_t sequence = atomic_load_explicit(&o->sequence, memory_order_relaxed) | 1;
	atomic_store_explicit(&o->sequence, sequence, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	o->time = now;
	o->inner = inner;
	o->epoch = epoch;
	o->count = count;
	for (uint32_t i = 0; i < count; i++)
		o->address[i] = chain[i];
	atomic_store_explicit(&o->last[site], now, memory_order_relaxed);
	atomic_store_explicit(&o->sequence, sequence + 1, memory_order_release);
}

/*
 * The table of chains: the return addresses above a call, innermost first. Each different
 * chain has a number, which API records hold in its place, and is sent once: before the first record with its
 * number, and sooner if it is known to be of a call.
 *
 * How many addresses of a chain tell anything depends on its innermost one: the recorder
 * finds out and says so, since the rest only makes more chains.
 */
#define PROBES 32  /* places in a table where an entry may be */
#define DEPTHS 4096u
#define DEPTH_SHIFT 56 /* above all bits of an address */
#define ADDRESS_BITS ((1ull << DEPTH_SHIFT) - 1)

static struct ct_known_chain *chains; /* number N is chains[N] */
static _Atomic uint64_t *depths; /* by innermost address, in the upper bits; 0 marks a free entry */
static _Atomic uint32_t epoch = 1;
static atomic_bool any_due;
static bool sent[CT_CHAINS_MAX];

static struct ct_seen_memory *seen_memory(void)
{
	return (struct ct_seen_memory *)(shared + 1);
}

bool ct_chains_start(void)
{
	chains = shared && has_seen ? seen_memory()->chains : NULL;
	depths = ct_alloc(DEPTHS * sizeof *depths);
	return chains && depths;
}

/* The epoch of chains that are found now. */
uint32_t ct_chain_epoch(void)
{
	return atomic_load_explicit(&epoch, memory_order_relaxed);
}

static uint64_t hash(uint32_t e, uint64_t inner, const uint64_t *addresses, uint32_t count)
{
	uint64_t h = ct_mix(ct_mix(e, count), inner);
	for (uint32_t i = 0; i < count; i++)
		h = ct_mix(h, addresses[i]);
	h = ct_mix(h, h >> 32);
	return h ? h : 1;
}

/*
 * The number of a chain, 0 when the table is full. Equal hashes stand for equal chains: among as
 * many as the table holds, two different ones meet once in 10^11 runs.
 */
uint32_t ct_chain_number(uint64_t inner, const uint64_t *addresses, uint32_t count, bool *fresh)
{
	uint32_t e = atomic_load_explicit(&epoch, memory_order_relaxed);
	uint64_t h = hash(e, inner, addresses, count);
	*fresh = false;
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t number = (uint32_t)(h + i) & (CT_CHAINS_MAX - 1);
		struct ct_known_chain *c = &chains[number];
		uint64_t there = atomic_load_explicit(&c->hash, memory_order_relaxed);
		if (number == 0)
			continue;
		if (there == 0 && atomic_compare_exchange_strong(&c->hash, &there, h)) {
			c->epoch = e;
			c->inner = inner;
			memcpy(c->address, addresses, count * sizeof *addresses);
			atomic_store_explicit(&c->count, (uint16_t)count, memory_order_release);
			*fresh = true;
			return number;
		}
		if (there == h)
			return number;
	}
	return 0;
}

/* Has a chain sent, if it has not been; false when it is not complete yet, or there is no memory. */
bool ct_chain_send(uint32_t number)
{
	struct {
		struct ct_chain chain;
		uint64_t address[CT_CHAIN_MAX];
	} m = {.chain = {.head = {.kind = CT_REC_CALLER}, .id = number}};
	struct ct_known_chain *c = &chains[number & (CT_CHAINS_MAX - 1)];
	if (sent[number & (CT_CHAINS_MAX - 1)])
		return true;
	m.chain.count = atomic_load_explicit(&c->count, memory_order_acquire);
	if (m.chain.count == 0)
		return false;
	size_t size = sizeof m.chain + m.chain.count * sizeof m.address[0];
	m.chain.head.size = (uint16_t)size;
	m.chain.epoch = c->epoch;
	memcpy(m.address, c->address, m.chain.count * sizeof m.address[0]);
	if (!ct_queue_definition(&m, size, "", 0))
		return false;
	sent[number] = true;
	return true;
}

/* A chain that is to be sent soon; for every thread, inside CUDA calls. */
void ct_chain_due(uint32_t number)
{
	atomic_store_explicit(&chains[number].due, true, memory_order_relaxed);
	atomic_store_explicit(&any_due, true, memory_order_release);
}

/* Has the chains sent that are due. */
void ct_chains_send(void)
{
	if (!atomic_exchange(&any_due, false))
		return;
	for (uint32_t number = 1; number < CT_CHAINS_MAX; number++)
		if (atomic_exchange_explicit(&chains[number].due, false, memory_order_relaxed) && !ct_chain_send(number))
			ct_chain_due(number);
}

static uint32_t depth_slot(uint64_t innermost, uint32_t i)
{
	return (uint32_t)((ct_mix(0, innermost) >> 32) + i) & (DEPTHS - 1);
}

/* How many addresses above and with this innermost one are of use; 0 when that is not known. */
uint32_t ct_chain_depth(uint64_t innermost)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		uint64_t there = atomic_load_explicit(&depths[depth_slot(innermost, i)], memory_order_relaxed);
		if (there == 0)
			return 0;
		if ((there & ADDRESS_BITS) == innermost)
			return (uint32_t)(there >> DEPTH_SHIFT);
	}
	return 0;
}

void ct_chain_set_depth(uint64_t innermost, uint32_t depth)
{
	if (depth == 0 || depth > CT_CHAIN_MAX || innermost == 0 || innermost > ADDRESS_BITS)
		return;
	for (uint32_t i = 0; i < PROBES; i++) {
		_Atomic uint64_t *at = &depths[depth_slot(innermost, i)];
		uint64_t there = atomic_load(at);
		if (there != 0 && (there & ADDRESS_BITS) != innermost)
			continue;
		atomic_store(at, (uint64_t)depth << DEPTH_SHIFT | innermost);
		return;
	}
}

/* The program has unloaded a library: from now on an address may mean another function. */
void ct_chains_unloaded(void)
{
	atomic_fetch_add(&epoch, 1);
}

/*
 * Calls of CUPTI's timestamp callback, on their way from the threads of the program: a ring for each thread. When a
 * thread ends, its ring goes to the next new thread; what is still in it stays there. The first rings are large,
 * since few threads of a program launch much.
 */
_Static_assert(CT_OPEN_PLACES == CT_SITE_NONE, "places are numbered alike");
_Static_assert(CT_CHAINS_MAX <= 1u << CT_SEEN_CHAIN_BITS, "a chain's number fits in a word");

#define SMALL 4096u /* words of a ring, as the next */
#define LARGE 32768u
#define LARGE_RINGS 8u
#define MOST_RINGS (CT_SEEN_WORDS / SMALL - LARGE_RINGS * (LARGE / SMALL) + LARGE_RINGS)
#define BYTES(words) (sizeof(struct ring) + (words) * (2 * sizeof(uint64_t)))

_Static_assert(LARGE_RINGS * LARGE + (MOST_RINGS - LARGE_RINGS) * SMALL <= sizeof((struct ct_seen_memory *)NULL)->words / 8, "rings");

struct ring {
	_Alignas(64) struct ct_thread thread;
	_Atomic uint32_t tid; /* of the owner, 0 without one */
	uint32_t next, limit; /* the owner's: where it writes, and how far it may */
	uint32_t size;        /* words, a power of two */
	_Atomic uint64_t *words;
	_Atomic uint64_t *above; /* of each word, the Python stack and, in the upper half, the operators */
	struct ct_seen_ring *head; /* how much is written */
	_Alignas(64) _Atomic uint32_t taken;
	uint32_t taken_tid; /* of the words that are taken next */
};

static struct ring *rings;
static uint32_t ring_count;
static pthread_key_t key;
static bool keyed;
static _Atomic uint64_t dropped; /* the time of the latest call that found no room; 0: none */

static void thread_ends(void *t)
{
	struct ring *r = t;
	open_release(r->thread.open, ct_now());
	atomic_store_explicit(&r->tid, 0, memory_order_release);
}

/* Threads that end come here no more. */
void ct_seen_forget(void)
{
	if (keyed)
		pthread_key_delete(key);
}

/* Whether threads have addresses in the rings. */
bool ct_seen_used(void)
{
	return keyed;
}

/* How many rings there are in so much memory, and words in all of them. The first ones are large. */
static size_t divide(size_t memory, size_t *large, size_t *words)
{
	*large = memory / 2 / BYTES(LARGE) < LARGE_RINGS ? memory / 2 / BYTES(LARGE) : LARGE_RINGS;
	size_t count = *large + (memory - *large * BYTES(LARGE)) / BYTES(SMALL);
	if (count > MOST_RINGS)
		count = MOST_RINGS;
	*words = *large * LARGE + (count - *large) * SMALL;
	return count;
}

/* How much of struct ct_seen_memory there has to be, bytes. */
size_t ct_seen_size(size_t memory)
{
	size_t large, words;
	return divide(memory, &large, &words) > 0 ? offsetof(struct ct_seen_memory, words) + words * sizeof(uint64_t) : 0;
}

/* False when there can be no rings. */
bool ct_seen_start(size_t memory)
{
	size_t large, all, count = divide(memory, &large, &all);
	if (count == 0 || pthread_key_create(&key, thread_ends) != 0)
		return false;
	keyed = true;
	rings = shared && has_seen ? ct_alloc(count * sizeof *rings + all * sizeof *rings->above) : NULL;
	if (!rings)
		return false;
	struct ct_seen_memory *m = seen_memory();
	_Atomic uint64_t *above = (_Atomic uint64_t *)&rings[count];
	uint32_t at = 0;
	for (size_t i = 0; i < count; i++) {
		struct ring *r = &rings[i];
		r->size = i < large ? LARGE : SMALL;
		r->words = m->words + at;
		r->above = above + at;
		r->head = &m->rings[i];
		r->head->at = at;
		r->head->size = r->size;
		at += r->size;
	}
	ring_count = (uint32_t)count;
	return true;
}

/* A call was seen at that time, which may be that of a word, and has found no room, or has given way to others. */
void ct_seen_drop(uint64_t time)
{
	uint64_t now = ct_now();
	time = now - ct_seen_cut(now - time);
	uint64_t latest = atomic_load_explicit(&dropped, memory_order_relaxed);
	while (time > latest &&
	       !atomic_compare_exchange_weak_explicit(&dropped, &latest, time, memory_order_relaxed, memory_order_relaxed))
		;
}

/* Whether a call of the callback at that time may be missing because it found no room. */
bool ct_seen_may_lack(uint64_t time)
{
	return time <= atomic_load_explicit(&dropped, memory_order_relaxed);
}

static bool has_room(struct ring *r)
{
	if (r->next != r->limit)
		return true;
	r->limit = atomic_load_explicit(&r->taken, memory_order_acquire) + r->size;
	return r->next != r->limit;
}

static void put(struct ring *r, struct ct_seen call)
{
	atomic_store_explicit(&r->words[r->next & (r->size - 1)], call.word, memory_order_relaxed);
	atomic_store_explicit(&r->above[r->next & (r->size - 1)], (uint64_t)call.operators << 32 | call.python, memory_order_relaxed);
	r->next++;
	atomic_store_explicit(&r->head->written, r->next, memory_order_release);
}

/*
 * Gives the calling thread a ring without an owner; NULL without one. To keep the value, glibc may
 * allocate memory, once a thread, where a program has more than 32 keys (PyTorch has). That is safe
 * inside a CUDA call, in which the driver allocates, too.
 */
static struct ring *claim(void)
{
	uint32_t tid = ct_tid();
	for (uint32_t i = 0; i < ring_count; i++) {
		struct ring *r = &rings[i];
		uint32_t none = 0;
		if (atomic_load_explicit(&r->tid, memory_order_relaxed) != 0 ||
		    !atomic_compare_exchange_strong(&r->tid, &none, tid))
			continue;
		if (!has_room(r) || pthread_setspecific(key, r) != 0) {
			atomic_store_explicit(&r->tid, 0, memory_order_release);
			continue;
		}
		r->head->tid = tid;
		put(r, (struct ct_seen){.word = ct_seen_word(tid, CT_SITE_NONE, 0)});
		r->thread.busy = false;
		r->thread.open = open_claim(i, tid);
		ct_home_find(&r->thread.home);
		return r;
	}
	return NULL;
}

/* What is kept for the calling thread; NULL when there are too many threads. */
struct ct_thread *ct_seen_thread(void)
{
	struct ring *r = pthread_getspecific(key);
	if (!r) {
		int before = errno;
		r = claim();
		errno = before;
	}
	return r ? &r->thread : NULL;
}

/* True when the ring has become half full, and should be taken from soon. */
bool ct_seen_add(struct ct_thread *t, struct ct_seen call)
{
	struct ring *r = (struct ring *)t;
	if (!has_room(r)) {
		ct_seen_drop(ct_seen_time(call.word));
		return true;
	}
	put(r, call);
	return r->limit - r->next == r->size / 2;
}

/*
 * Takes words from a ring up to the one of a thread with that time, or to the first later one of that
 * thread. Others are passed on. Word 0 if there is none.
 */
static struct ct_seen find_in(struct ring *r, uint32_t tid, uint64_t time, ct_seen_fn passed)
{
	uint32_t at = atomic_load_explicit(&r->taken, memory_order_relaxed);
	uint32_t end = atomic_load_explicit(&r->head->written, memory_order_acquire);
	struct ct_seen found = {0};
	for (; at != end && found.word == 0; at++) {
		uint64_t word = atomic_load_explicit(&r->words[at & (r->size - 1)], memory_order_relaxed);
		uint64_t above = atomic_load_explicit(&r->above[at & (r->size - 1)], memory_order_relaxed);
		struct ct_seen call = {word, (uint32_t)above, (uint32_t)(above >> 32)};
		if (ct_seen_chain(word) == 0 && ct_seen_site(word) == CT_SITE_NONE)
			r->taken_tid = (uint32_t)ct_seen_time(word);
		else if (r->taken_tid != tid || ct_seen_time(word) < time)
			passed(r->taken_tid, call);
		else if (ct_seen_time(word) == time)
			found = call;
		else
			break;
	}
	atomic_store_explicit(&r->taken, at, memory_order_release);
	return found;
}

/* The ring whose next words are of a thread; NULL if none is known. */
static struct ring *ring_of(uint32_t tid)
{
	static struct ring *last;
	for (uint32_t i = 0; i < ring_count && (!last || last->taken_tid != tid); i++)
		if (rings[i].taken_tid == tid)
			last = &rings[i];
	return last && last->taken_tid == tid ? last : NULL;
}

/*
 * Takes the word of a thread with that time, and those of the thread before it, which are passed on. Word 0 if the
 * ring has none; a ring whose owner is new has to be emptied first.
 */
struct ct_seen ct_seen_find(uint32_t tid, uint64_t time, ct_seen_fn passed)
{
	struct ring *r = ring_of(tid);
	return r ? find_in(r, tid, time, passed) : (struct ct_seen){0};
}

/* Passes on what is in rings: in all, or in those that are half full. */
void ct_seen_empty(ct_seen_fn passed, bool all)
{
	for (uint32_t i = 0; i < ring_count; i++) {
		struct ring *r = &rings[i];
		uint32_t waiting = atomic_load_explicit(&r->head->written, memory_order_relaxed) -
				   atomic_load_explicit(&r->taken, memory_order_relaxed);
		if (waiting > 0 && (all || waiting >= r->size / 2))
			find_in(r, 0, 0, passed);
	}
}
