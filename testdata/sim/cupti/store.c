/* One buffer per thread. The completion callback gets the thread's id as its stream.
 * The thread that has a record to write requests the buffer from the client,
 * as in CUPTI 13 by default. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

struct owner {
	pthread_mutex_t mu; /* against a flush; only the owner gets new buffers */
	uint8_t *buffer;
	size_t size, used, limit, records;
	uint32_t tid;
	struct owner *next, **link;
};

static _Atomic(CUptiBufferRequested) requested;
static _Atomic(CUptiBufferCompleted) completed;
static _Atomic size_t dropped;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct owner *owners;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local struct owner *mine;

static bool take(struct owner *o, struct owner *out)
{
	pthread_mutex_lock(&o->mu);
	*out = *o;
	o->buffer = NULL;
	o->size = o->used = o->records = 0;
	pthread_mutex_unlock(&o->mu);
	return out->buffer != NULL;
}

static void give(struct owner *o)
{
	struct owner full;
	if (take(o, &full))
		cupti_worker_give(full.tid, full.buffer, full.size, full.used);
}

/* In a forked child a thread that the child does not have may hold the locks. */
static void thread_ends(void *arg)
{
	struct owner *o = arg;
	if (cupti_forked())
		return;
	pthread_mutex_lock(&mu);
	*o->link = o->next;
	if (o->next)
		o->next->link = o->link;
	pthread_mutex_unlock(&mu);
	give(o);
	pthread_mutex_destroy(&o->mu);
	free(o);
	mine = NULL;
}

static void make_key(void)
{
	pthread_key_create(&key, thread_ends);
}

static struct owner *self(void)
{
	if (mine)
		return mine;
	struct owner *o = calloc(1, sizeof *o);
	if (!o)
		return NULL;
	o->tid = (uint32_t)gettid();
	pthread_once(&once, make_key);
	pthread_mutex_init(&o->mu, NULL);
	pthread_mutex_lock(&mu);
	o->next = owners;
	o->link = &owners;
	if (owners)
		owners->link = &o->next;
	owners = o;
	pthread_mutex_unlock(&mu);
	pthread_setspecific(key, o);
	return mine = o;
}

static bool fits(const struct owner *o, size_t size)
{
	return o->buffer && o->size - o->used >= size && (!o->limit || o->records < o->limit);
}

struct supply {
	uint8_t *buffer;
	size_t size, limit;
};

static struct supply request(void)
{
	CUptiBufferRequested f = atomic_load(&requested);
	struct supply got = {0};
	if (f)
		f(&got.buffer, &got.size, &got.limit);
	if (f && !got.buffer && sim_config()->null_aborts) {
		fputs("cudasim: CUPTI before 12.9 does not survive a request answered with NULL\n", stderr);
		abort();
	}
	return got;
}

static bool put(struct owner *o, const void *record, size_t size)
{
	if (!fits(o, size))
		return false;
	memcpy(o->buffer + o->used, record, size);
	o->used += size;
	o->records++;
	return true;
}

static bool append(struct owner *o, const void *record, size_t size)
{
	pthread_mutex_lock(&o->mu);
	bool room = put(o, record, size);
	pthread_mutex_unlock(&o->mu);
	return room;
}

void cupti_store_dropped(void)
{
	atomic_fetch_add(&dropped, 1);
}

/* After the first record of a new buffer comes a record of the time that the client took for the request.
 * Both are in the buffer before a flush on another thread can hand it over. */
static bool renew(struct owner *o, const void *record, size_t size)
{
	bool tell = cupti_kind(CUPTI_KIND_OVERHEAD);
	uint64_t start = tell ? cupti_clock() : 0;
	CUptiOverhead r;
	give(o);
	struct supply got = request();
	if (tell)
		cupti_overhead(&r, CUPTI_OVERHEAD_BUFFER_REQUEST, start);
	pthread_mutex_lock(&o->mu);
	o->buffer = got.size ? got.buffer : NULL;
	o->size = o->buffer ? got.size : 0;
	o->limit = got.limit;
	o->used = o->records = 0;
	bool kept = put(o, record, size);
	bool told = !kept || !tell || put(o, &r, sizeof r);
	pthread_mutex_unlock(&o->mu);
	if (!told)
		cupti_store_dropped();
	return kept;
}

void cupti_store(const void *record, size_t size)
{
	struct owner *o = self();
	if (o && append(o, record, size))
		return;
	if (!o || !renew(o, record, size))
		cupti_store_dropped();
}

void cupti_hand_over(void)
{
	pthread_mutex_lock(&mu);
	for (struct owner *o = owners; o; o = o->next)
		give(o);
	pthread_mutex_unlock(&mu);
}

bool cupti_has_client(void)
{
	return atomic_load(&completed) != NULL;
}

void cupti_complete(uint32_t tid, uint8_t *buffer, size_t size, size_t valid)
{
	atomic_load(&completed)(NULL, tid, buffer, size, valid);
}

/* A later client replaces an earlier one and gets all buffers from
 * then on, also buffers that the earlier client supplied: seen on an H200. */
CUPTI(cuptiActivityRegisterCallbacks, (CUptiBufferRequested request_fn, CUptiBufferCompleted complete_fn))
{
	if (!request_fn || !complete_fn)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!cupti_hook() || cupti_forked())
		return CUPTI_ERROR_NOT_INITIALIZED;
	if (cupti_worker_start())
		return CUPTI_ERROR_OUT_OF_MEMORY;
	atomic_store(&requested, request_fn);
	atomic_store(&completed, complete_fn);
	return CUPTI_SUCCESS;
}

CUPTI(cuptiActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *out))
{
	(void)context, (void)stream;
	if (!out)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*out = atomic_exchange(&dropped, 0);
	return CUPTI_SUCCESS;
}
