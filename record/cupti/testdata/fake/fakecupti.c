/*
 * A CUPTI that misbehaves on demand: what the simulated stack's well-behaved one
 * is not for. The environment says how:
 *   FAKE_VERSION  what cuptiGetVersion answers (130001)
 *   FAKE_FAIL     the name of a function that returns an error; "kind N" for
 *                 cuptiActivityEnable of one kind
 *   FAKE_CLOCK    callback (default), refused, ignored, records, zero, garbage
 *   FAKE_HOARD    full buffers are kept until a flush, and who gets no buffer waits
 * Records go into a buffer a thread, as with CUPTI 13. -DLACKING leaves out the
 * functions that older releases do not have.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint64_t (*timestamp)(void);
static _Atomic int on[64], api_on[3][4096], enabled_calls;
static _Atomic uint64_t dropped, total_dropped;

#define HOARD 4096
struct buffer {
	uint8_t *bytes;
	size_t size, used;
};
struct thread {
	pthread_mutex_t lock;
	uint8_t *buffer;
	size_t size, used;
	struct buffer hoard[HOARD];
	unsigned hoarded;
};
static struct thread threads[256];
static _Atomic unsigned thread_count;
static _Thread_local struct thread *mine;

__attribute__((constructor)) static void prepare(void)
{
	for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++)
		pthread_mutex_init(&threads[i].lock, NULL);
}

static int fails(const char *name)
{
	const char *f = getenv("FAKE_FAIL");
	return f && strcmp(f, name) == 0 ? 999 : 0;
}

static int clock_is(const char *name)
{
	const char *c = getenv("FAKE_CLOCK");
	return c && strcmp(c, name) == 0;
}

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t record_time(void)
{
	if (clock_is("zero"))
		return 0;
	if (clock_is("garbage"))
		return 12345;
	if (!timestamp || clock_is("records") || clock_is("ignored"))
		return read_clock(CLOCK_REALTIME);
	return timestamp();
}

int cuptiGetVersion(uint32_t *v)
{
	const char *s = getenv("FAKE_VERSION");
	*v = s ? (uint32_t)atoi(s) : 130001;
	return fails("cuptiGetVersion");
}

int cuptiActivityRegisterCallbacks(void *r, void *c)
{
	*(void **)&request = r;
	*(void **)&complete = c;
	return fails("cuptiActivityRegisterCallbacks");
}

int cuptiActivityEnable(uint32_t kind)
{
	char name[32] = "kind ";
	name[5] = (char)('0' + kind / 10);
	name[6] = (char)('0' + kind % 10);
	if (fails(name) || fails("cuptiActivityEnable"))
		return 999;
	on[kind] = 1;
	return 0;
}

int cuptiActivityDisable(uint32_t kind)
{
	on[kind] = 0;
	return 0;
}

static size_t size_of(uint32_t kind)
{
	switch (kind) {
	case 10: return 216;
	case 4: case 5: return 40;
	case 1: return 88;
	case 22: return 96;
	case 2: return 80;
	case 8: return 152;
	case 9: return 16;
	case 37: return 24;
	case 12: return 56;
	}
	return 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
	uint8_t *next = buffer;
	uint32_t kind;
	if (*record) {
		memcpy(&kind, *record, 4);
		next = (uint8_t *)*record + size_of(kind);
	}
	if (next >= buffer + valid)
		return 12;
	memcpy(&kind, next, 4);
	if (size_of(kind) == 0)
		return 21;
	*record = next;
	return 0;
}

static void hand_over(struct thread *t)
{
	for (unsigned i = 0; i < t->hoarded; i++)
		complete(NULL, 0, t->hoard[i].bytes, t->hoard[i].size, t->hoard[i].used);
	t->hoarded = 0;
}

static void keep_buffer(struct thread *t)
{
	t->hoard[t->hoarded++] = (struct buffer){t->buffer, t->size, t->used};
	t->buffer = NULL;
	t->used = 0;
}

static void finish_buffer(struct thread *t)
{
	if (t->buffer)
		complete(NULL, 0, t->buffer, t->size, t->used);
	t->buffer = NULL;
	t->used = 0;
}

int cuptiActivityFlushAll(uint32_t forced)
{
	(void)forced;
	for (unsigned i = 0; i < thread_count; i++) {
		pthread_mutex_lock(&threads[i].lock);
		hand_over(&threads[i]);
		finish_buffer(&threads[i]);
		pthread_mutex_unlock(&threads[i].lock);
	}
	return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n)
{
	(void)context;
	(void)stream;
	*n = __atomic_exchange_n((uint64_t *)&dropped, 0, __ATOMIC_SEQ_CST);
	return 0;
}

int cuptiGetTimestamp(uint64_t *t)
{
	*t = timestamp && !clock_is("ignored") ? timestamp() : read_clock(CLOCK_REALTIME);
	return 0;
}

#ifndef LACKING
int cuptiActivityRegisterTimestampCallback(uint64_t (*f)(void))
{
	if (clock_is("refused"))
		return 999;
	timestamp = f;
	return 0;
}

int cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char **name)
{
	static const struct { uint32_t domain, cbid; const char *name; } known[] = {
		{2, 31, "cudaMemcpy_v3020"}, {2, 41, "cudaMemcpyAsync_v3020"},
		{2, 51, "cudaMemsetAsync_v3020"}, {2, 97, "cudaLaunchHostFunc_v10000"}, {2, 211, "cudaLaunchKernel_v7000"},
		{2, 350, "cudaGraphMemcpyNodeSetParams_v10000"}, {1, 2, "cuInit"}, {1, 30, NULL}, {1, 60, "cuGap"}, {1, 120, "cuGap"}, {1, 180, "cuGap"}, {1, 240, "cuGap"},
		{1, 278, "cuMemcpyHtoD_v2"},
		{1, 307, "cuLaunchKernel"}, {1, 350, "cuLaunchHostFunc"}};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (known[i].domain == domain && known[i].cbid == cbid) {
			*name = known[i].name;
			return 0;
		}
	*name = domain == 2 ? "cudaGetDevice_v3020" : NULL; /* gaps among the driver's */
	return cbid < 420 ? 0 : 1;
}

static int enable_call(uint32_t domain, uint32_t cbid, uint8_t yes)
{
	if (api_on[domain][cbid] != yes)
		enabled_calls += yes ? 1 : -1;
	api_on[domain][cbid] = yes;
	return 0;
}

int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t yes)
{
	return fails("cuptiActivityEnableRuntimeApi") ? 999 : enable_call(2, cbid, yes);
}

int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t yes)
{
	return fails("cuptiActivityEnableRuntimeApi") ? 999 : enable_call(1, cbid, yes);
}

int cuptiSetThreadIdType(int type)
{
	return type == 1 ? 0 : 1;
}

int cuptiGetResultString(int r, const char **text)
{
	*text = r == 999 ? "FAKE_ERROR" : "FAKE_OTHER";
	return 0;
}
#endif

static struct thread *this_thread(void)
{
	if (!mine) {
		static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
		pthread_mutex_lock(&lock);
		mine = &threads[thread_count];
		thread_count++;
		pthread_mutex_unlock(&lock);
	}
	return mine;
}

/* Makes room for a record: a new buffer when the old one is full. */
static void make_room(struct thread *t, size_t size)
{
	size_t max = 0;
	int hoard = getenv("FAKE_HOARD") != NULL;
	if (t->buffer && t->size - t->used < size) {
		if (hoard && t->hoarded < HOARD)
			keep_buffer(t);
		else
			finish_buffer(t);
	}
	for (int tries = 0; !t->buffer; tries++) {
		request(&t->buffer, &t->size, &max);
		t->used = 0;
		if (t->buffer || !hoard || tries == 20000)
			return;
		pthread_mutex_unlock(&t->lock);
		usleep(1000);
		pthread_mutex_lock(&t->lock);
	}
}

static void put(const void *record, uint32_t kind)
{
	struct thread *t = this_thread();
	size_t size = size_of(kind);
	pthread_mutex_lock(&t->lock);
	make_room(t, size);
	if (t->buffer && t->size >= size) {
		memcpy(t->buffer + t->used, record, size);
		t->used += size;
	} else {
		dropped++;
		total_dropped++;
	}
	pthread_mutex_unlock(&t->lock);
}

static void set(uint8_t *r, size_t at, uint64_t value, size_t size)
{
	memcpy(r + at, &value, size);
}

void fake_api(uint32_t domain, uint32_t cbid, uint32_t tid, uint32_t correlation)
{
	uint8_t r[40] = {0};
	if (!request || (!api_on[domain][cbid] && !on[domain == 1 ? 4 : 5]))
		return;
	set(r, 0, domain == 1 ? 4 : 5, 4);
	set(r, 4, cbid, 4);
	set(r, 8, record_time(), 8);
	set(r, 16, record_time(), 8);
	set(r, 28, tid, 4);
	set(r, 32, correlation, 4);
	set(r, 36, 9, 4);
	put(r, domain == 1 ? 4 : 5);
}

void fake_kernel(const char *name, uint32_t stream, uint32_t correlation)
{
	uint8_t r[216] = {0};
	if (!on[10])
		return;
	set(r, 0, 10, 4);
	set(r, 6, 32, 2);
	set(r, 16, record_time(), 8);
	set(r, 24, record_time(), 8);
	for (size_t i = 0; i < 12; i++) /* device@40 .. localPerThread@84 */
		set(r, 40 + 4 * i, 100 + i, 4);
	set(r, 48, stream, 4);
	set(r, 92, correlation, 4);
	set(r, 104, (uintptr_t)name, 8);
	set(r, 144, 0x1122334455667788, 8);
	set(r, 156, 77, 4);
	set(r, 176, 2, 4);
	set(r, 180, 3, 4);
	set(r, 184, 4, 4);
	put(r, 10);
}

/* One record of each other kind, told apart by what its fields hold. */
void fake_others(void)
{
	uint8_t r[152];
	uint64_t now = record_time();
	memset(r, 0, sizeof r);
	set(r, 0, 1, 4), set(r, 4, 0x030201, 4), set(r, 8, 4096, 8), set(r, 16, now, 8), set(r, 24, now + 5, 8);
	set(r, 32, 1, 4), set(r, 36, 2, 4), set(r, 40, 3, 4), set(r, 44, 4, 4), set(r, 64, 5, 8), set(r, 72, 6, 4);
	put(r, 1);
	memset(r, 0, sizeof r);
	set(r, 0, 22, 4), set(r, 4, 0x060504, 4), set(r, 8, 8192, 8), set(r, 16, now, 8), set(r, 24, now + 6, 8);
	set(r, 32, 1, 4), set(r, 36, 2, 4), set(r, 40, 3, 4), set(r, 44, 11, 4), set(r, 52, 12, 4), set(r, 60, 13, 4);
	set(r, 72, 14, 8), set(r, 80, 15, 4);
	put(r, 22);
	memset(r, 0, sizeof r);
	set(r, 0, 2, 4), set(r, 4, 255, 4), set(r, 8, 64, 8), set(r, 16, now, 8), set(r, 24, now + 7, 8);
	set(r, 32, 1, 4), set(r, 36, 2, 4), set(r, 40, 3, 4), set(r, 44, 21, 4), set(r, 64, 22, 8), set(r, 72, 23, 4);
	put(r, 2);
	memset(r, 0, sizeof r);
	set(r, 0, 8, 4), set(r, 8, 31, 8), set(r, 16, 32, 8), set(r, 44, 33, 4), set(r, 104, 9, 4), set(r, 108, 1, 4);
	set(r, 112, 34, 4), set(r, 120, 0x0706050403020100, 8), set(r, 128, 0x0f0e0d0c0b0a0908, 8);
	set(r, 136, (uintptr_t) "Fake GPU", 8);
	put(r, 8);
	memset(r, 0, sizeof r);
	set(r, 0, 9, 4), set(r, 4, 41, 4), set(r, 8, 42, 4), set(r, 14, 43, 2);
	put(r, 9);
	memset(r, 0, sizeof r);
	set(r, 0, 37, 4), set(r, 4, 51, 4), set(r, 8, 52, 4), set(r, 12, (uint32_t)-5, 4), set(r, 16, 54, 4);
	put(r, 37);
	memset(r, 0, sizeof r);
	set(r, 0, 12, 4); /* a kind that was never asked for */
	put(r, 12);
}

/* What is still switched on; 0 after everything was undone. */
int fake_enabled(void)
{
	int n = enabled_calls;
	for (int i = 0; i < 64; i++)
		n += on[i];
	return n;
}

uint64_t fake_dropped(void)
{
	return total_dropped;
}
