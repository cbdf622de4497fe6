/*
 * Calls of CUPTI's timestamp callback, on their way from the threads of the program to
 * match.c: a ring for each thread. walk.c adds to the ring of the calling thread, inside
 * CUDA calls: nothing there may wait or take a lock, and only a thread's first call may
 * allocate. One thread at a time takes from all rings. When a thread ends, its ring goes to
 * the next new thread; what is still in it stays there. The first rings are large, since few
 * threads of a program launch much.
 */
#include "seen.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "wire.h"

_Static_assert(CT_OPEN_PLACES == CT_SITE_NONE, "places are numbered alike");
_Static_assert(CT_CHAINS <= 1u << CT_SEEN_CHAIN_BITS, "a chain's number fits in a word");

#define SMALL 4096u /* words of a ring, as the next */
#define LARGE 32768u
#define LARGE_RINGS 8u
#define BYTES(words) (sizeof(struct ring) + (words) * sizeof(uint64_t))

struct ring {
	_Alignas(64) struct ct_thread thread;
	_Atomic uint32_t tid; /* of the owner, 0 without one */
	uint32_t next, limit; /* the owner's: where it writes, and how far it may */
	uint32_t size;        /* words, a power of two */
	_Atomic uint64_t *words;
	_Alignas(64) _Atomic uint32_t written;
	_Alignas(64) _Atomic uint32_t taken;
	uint32_t taken_tid; /* of the words that are taken next */
};

static struct ring *rings;
static uint32_t ring_count;
static pthread_key_t key;
static _Atomic uint64_t dropped;

static void thread_ends(void *t)
{
	struct ring *r = t;
	ct_open_release(r->thread.open, ct_now());
	atomic_store_explicit(&r->tid, 0, memory_order_release);
}

/* False when there can be no rings. */
bool ct_seen_start(size_t memory)
{
	size_t large = memory / 2 / BYTES(LARGE) < LARGE_RINGS ? memory / 2 / BYTES(LARGE) : LARGE_RINGS;
	size_t count = large + (memory - large * BYTES(LARGE)) / BYTES(SMALL);
	if (count == 0 || pthread_key_create(&key, thread_ends) != 0)
		return false;
	rings = ct_alloc(memory);
	if (!rings)
		return false;
	_Atomic uint64_t *words = (_Atomic uint64_t *)&rings[count];
	for (size_t i = 0; i < count; i++) {
		rings[i].size = i < large ? LARGE : SMALL;
		rings[i].words = words;
		words += rings[i].size;
	}
	ring_count = (uint32_t)count;
	return true;
}

void ct_seen_drop(void)
{
	atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
}

/* How many calls were seen and found no room. */
uint64_t ct_seen_dropped(void)
{
	return atomic_load_explicit(&dropped, memory_order_relaxed);
}

static bool has_room(struct ring *r)
{
	if (r->next != r->limit)
		return true;
	r->limit = atomic_load_explicit(&r->taken, memory_order_acquire) + r->size;
	return r->next != r->limit;
}

static void put(struct ring *r, uint64_t word)
{
	atomic_store_explicit(&r->words[r->next & (r->size - 1)], word, memory_order_relaxed);
	r->next++;
	atomic_store_explicit(&r->written, r->next, memory_order_release);
}

/*
 * Gives the calling thread a ring without an owner; NULL without one. To keep the value, glibc may
 * allocate memory, once a thread, where a program has more than 32 keys (PyTorch has). That is safe
 * inside a CUDA call, in which the driver allocates, too.
 */
static struct ring *claim(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
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
		put(r, ct_seen_word(tid, CT_SITE_NONE, 0));
		r->thread.busy = false;
		r->thread.open = ct_open_claim(i, tid);
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
bool ct_seen_add(struct ct_thread *t, uint64_t word)
{
	struct ring *r = (struct ring *)t;
	if (!has_room(r)) {
		ct_seen_drop();
		return true;
	}
	put(r, word);
	return r->limit - r->next == r->size / 2;
}

/*
 * Takes words from a ring up to the one of a thread with that time, or to the first later one of that
 * thread. Others are passed on. 0 if there is none.
 */
static uint64_t find_in(struct ring *r, uint32_t tid, uint64_t time, ct_seen_fn passed)
{
	uint32_t at = atomic_load_explicit(&r->taken, memory_order_relaxed);
	uint32_t end = atomic_load_explicit(&r->written, memory_order_acquire);
	uint64_t found = 0;
	for (; at != end && found == 0; at++) {
		uint64_t word = atomic_load_explicit(&r->words[at & (r->size - 1)], memory_order_relaxed);
		if (ct_seen_chain(word) == 0 && ct_seen_site(word) == CT_SITE_NONE)
			r->taken_tid = (uint32_t)ct_seen_time(word);
		else if (r->taken_tid != tid || ct_seen_time(word) < time)
			passed(r->taken_tid, word);
		else if (ct_seen_time(word) == time)
			found = word;
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
 * Takes the word of a thread with that time, and those of the thread before it, which are passed on. 0 if the
 * ring has none; a ring whose owner is new has to be emptied first.
 */
uint64_t ct_seen_find(uint32_t tid, uint64_t time, ct_seen_fn passed)
{
	struct ring *r = ring_of(tid);
	return r ? find_in(r, tid, time, passed) : 0;
}

/* Passes on what is in rings: in all, or in those that are half full. */
void ct_seen_empty(ct_seen_fn passed, bool all)
{
	for (uint32_t i = 0; i < ring_count; i++) {
		struct ring *r = &rings[i];
		uint32_t waiting = atomic_load_explicit(&r->written, memory_order_relaxed) -
				   atomic_load_explicit(&r->taken, memory_order_relaxed);
		if (waiting > 0 && (all || waiting >= r->size / 2))
			find_in(r, 0, 0, passed);
	}
}
