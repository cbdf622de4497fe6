/*
 * The buffers that CUPTI fills. From CUDA 13 on each thread of the program holds
 * one, and CUPTI keeps full ones until it is flushed: when it holds many, the
 * control thread is woken to do that, and the pool hands out smaller ones as its
 * memory runs out. Beyond the limit CUPTI gets nothing, or, where a release before 13.0 would take that for
 * an error, a scratch buffer that several threads may share: what is written
 * there is never looked at, only counted.
 */
#include "inject.h"

#include <pthread.h>

#define SIZES 3
#define MIN_BUFFER (8u << 10)

/* Lies in front of every buffer and keeps it 8-byte aligned. */
struct header {
	struct header *next;
	size_t size; /* of the buffer alone */
	unsigned tier;
	unsigned pad;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct header *idle[SIZES];
static size_t tier_size[SIZES], tier_limit[SIZES];
static size_t used; /* bytes allocated, in CUPTI's hands or idle */
static size_t out;  /* bytes in CUPTI's hands */
static size_t enough; /* of these: more, and CUPTI is asked to hand over what is full */
static uint8_t *scratch;
static size_t scratch_size;

static size_t at_least(size_t n, size_t least)
{
	n &= ~(size_t)7;
	return n < least ? least : n;
}

bool ct_pool_start(size_t memory, size_t buffer_size, bool null_allowed)
{
	size_t largest = memory / 4;
	if (buffer_size > largest)
		buffer_size = largest;
	for (unsigned i = 0; i < SIZES; i++)
		tier_size[i] = at_least(buffer_size >> (i == 0 ? 0 : 1 + 2 * i), MIN_BUFFER);
	tier_limit[0] = memory / 2;
	tier_limit[1] = memory / 4 * 3;
	tier_limit[2] = memory;
	enough = memory / 4;
	if (null_allowed)
		return true;
	scratch_size = tier_size[SIZES - 1];
	scratch = ct_alloc(scratch_size);
	return scratch != NULL;
}

static struct header *take_idle(void)
{
	for (unsigned i = 0; i < SIZES; i++) {
		struct header *h = idle[i];
		if (!h)
			continue;
		idle[i] = h->next;
		return h;
	}
	return NULL;
}

/* Reserves memory for a new buffer and says of which size; 0 when none is left. */
static size_t reserve(unsigned *tier)
{
	for (unsigned i = 0; i < SIZES; i++) {
		size_t size = sizeof(struct header) + tier_size[i];
		if (used + size > tier_limit[i])
			continue;
		used += size;
		*tier = i;
		return tier_size[i];
	}
	return 0;
}

static struct header *create(size_t size, unsigned tier)
{
	struct header *h = ct_alloc(sizeof *h + size);
	if (h) {
		h->size = size;
		h->tier = tier;
		return h;
	}
	pthread_mutex_lock(&lock);
	used -= sizeof *h + size;
	out -= size;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* A buffer to hand out; low says that CUPTI holds many. */
static struct header *get(bool *low)
{
	unsigned tier = 0;
	pthread_mutex_lock(&lock);
	struct header *h = take_idle();
	size_t size = h ? h->size : reserve(&tier);
	out += size;
	*low = size == 0 || out > enough;
	pthread_mutex_unlock(&lock);
	return h || size == 0 ? h : create(size, tier);
}

/* CUPTI's request for a buffer; called on any thread of the program. */
void ct_pool_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	*max_records = 0; /* as many as fit */
	bool low = false;
	struct header *h = ct_ours() ? get(&low) : NULL;
	if (low)
		ct_threads_wake();
	if (h) {
		*buffer = (uint8_t *)(h + 1);
		*size = h->size;
		return;
	}
	*buffer = scratch;
	*size = scratch_size;
}

bool ct_pool_scratch(const uint8_t *buffer)
{
	return buffer == scratch;
}

void ct_pool_release(uint8_t *buffer)
{
	struct header *h = (struct header *)(void *)buffer - 1;
	pthread_mutex_lock(&lock);
	out -= h->size;
	h->next = idle[h->tier];
	idle[h->tier] = h;
	pthread_mutex_unlock(&lock);
}
