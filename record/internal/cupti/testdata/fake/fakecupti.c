/*
 * A CUPTI that misbehaves on demand: what the simulated stack's well-behaved one
 * is not for. The environment says how:
 *   FAKE_VERSION  what cuptiGetVersion answers (130001)
 *   FAKE_FAIL     the name of a function that returns an error; "kind N" for
 *                 cuptiActivityEnable of one kind
 *   FAKE_CLOCK    callback (default), refused, ignored, records, zero, garbage;
 *                 zero-kernels: kernels alone have no times with a callback;
 *                 first: the first 10 kernels are on the realtime clock; moved: it
 *                 is CLOCK_REALTIME, and that is set 5 ms ahead halfway
 *   FAKE_HOARD    full buffers are kept until a flush, and who gets no buffer waits
 *   FAKE_CUES     a file through which a test has flushes hang, and sees them; cues.h
 * Records go into a buffer a thread, as with CUPTI 13. -DLACKING leaves out the
 * functions that older releases do not have.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cues.h"
#include "fake.h"

uint32_t fake_result = 9;

static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint64_t (*timestamp)(void);
static _Atomic int on[64], api_on[3][4096], enabled_calls;
static _Atomic uint64_t dropped, total_dropped;
static void (*callback)(void *, uint32_t, uint32_t, const void *);
static _Atomic int callback_on[3][4096], tables, kernels;
static _Atomic unsigned flush_waits; /* a flush wants a thread's lock */
static _Atomic uint64_t *cues;
static const char *failing, *clock_kind; /* of the environment */

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
	cues = cues_open();
	failing = getenv("FAKE_FAIL");
	clock_kind = getenv("FAKE_CLOCK");
}

static int fails(const char *name)
{
	return failing && strcmp(failing, name) == 0 ? 999 : 0;
}

static int clock_is(const char *name)
{
	return clock_kind && strcmp(clock_kind, name) == 0;
}

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* CLOCK_REALTIME, which may have been set. */
static uint64_t realtime(void)
{
	return read_clock(CLOCK_REALTIME) + (clock_is("moved") && kernels > 1000 ? 5000000 : 0);
}

static uint64_t record_time(void)
{
	if (clock_is("zero"))
		return 0;
	if (clock_is("garbage"))
		return 12345;
	if (!timestamp || clock_is("records") || clock_is("ignored") || clock_is("moved"))
		return realtime();
	return timestamp();
}

static uint64_t kernel_time(void)
{
	if (timestamp && clock_is("zero-kernels"))
		return 0;
	return clock_is("first") && kernels < 10 ? realtime() : record_time();
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
	case 12: case 17: return 56;
	case 11: return 32;
	case 50: return 80;
	case 60: return 16;
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
	cues[CUE_FLUSHES_BEGUN]++;
	while (cues[CUE_HANG])
		usleep(1000);
	for (unsigned i = 0; i < thread_count; i++) {
		flush_waits++;
		pthread_mutex_lock(&threads[i].lock);
		flush_waits--;
		hand_over(&threads[i]);
		finish_buffer(&threads[i]);
		pthread_mutex_unlock(&threads[i].lock);
	}
	cues[CUE_FLUSHES_DONE]++;
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
	*t = timestamp && !clock_is("ignored") && !clock_is("moved") ? timestamp() : realtime();
	return 0;
}

int cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char **name)
{
	static const struct { uint32_t domain, cbid; const char *name; } known[] = {
		{2, 31, "cudaMemcpy_v3020"}, {2, 41, "cudaMemcpyAsync_v3020"},
		{2, 20, "cudaMalloc_v3020"}, {2, 171, "cudaProfilerStart_v4000"}, {2, 172, "cudaProfilerStop_v4000"},
		{1, 308, "cuProfilerStart"}, {1, 309, "cuProfilerStop"},
		{2, 51, "cudaMemsetAsync_v3020"}, {2, 97, "cudaLaunchHostFunc_v10000"}, {2, 211, "cudaLaunchKernel_v7000"},
		{2, 350, "cudaGraphMemcpyNodeSetParams_v10000"}, {1, 1, "cuInit"}, {1, 4, "cuDeviceGetCount"}, {1, 30, NULL}, {1, 60, "cuGap"}, {1, 120, "cuGap"}, {1, 180, "cuGap"}, {1, 240, "cuGap"},
		{1, 43, "cuMemcpyHtoD"}, {1, 278, "cuMemcpyHtoD_v2"}, {1, 279, "cuMemcpyHtoD_v2_ptds"},
		{1, 307, "cuLaunchKernel"}, {1, 350, "cuLaunchHostFunc"}};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (known[i].domain == domain && known[i].cbid == cbid) {
			*name = known[i].name;
			return 0;
		}
	*name = domain == 2 ? "cudaGetDevice_v3020" : NULL; /* gaps among the driver's */
	return cbid < 420 ? 0 : 1;
}

int cuptiSubscribe(void **subscriber, void *f, void *user)
{
	(void)user;
	if (callback || fails("cuptiSubscribe"))
		return 39;
	*(void **)&callback = f;
	*subscriber = &callback;
	return 0;
}

int cuptiUnsubscribe(void *subscriber)
{
	(void)subscriber;
	callback = NULL;
	memset((void *)callback_on, 0, sizeof callback_on);
	return 0;
}

int cuptiEnableCallback(uint32_t yes, void *subscriber, uint32_t domain, uint32_t cbid)
{
	callback_on[domain][cbid] = (int)yes;
	return subscriber == &callback && !fails("cuptiEnableCallback") ? 0 : 1;
}

int cuptiGetResultString(int r, const char **text)
{
	*text = r == 999 ? "FAKE_ERROR" : "FAKE_OTHER";
	return 0;
}

int cuptiActivityRegisterTimestampCallback(uint64_t (*f)(void))
{
	if (clock_is("refused") || !f)
		return 999;
	timestamp = f;
	return 0;
}

int cuptiSetThreadIdType(int type)
{
	return type == 1 ? 0 : 1;
}

#ifndef LACKING
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

int InitializeInjectionNvtx2(void *table)
{
	tables += table != NULL;
	return fails("InitializeInjectionNvtx2") ? 0 : 1;
}

int InitializeInjectionNvtx(void *table)
{
	return InitializeInjectionNvtx2(table);
}
#endif

/* How many tables of NVTX functions it was given. */
int fake_tables(void)
{
	return tables;
}

static void call_back(uint32_t domain, uint32_t cbid, int site)
{
	struct {
		int site;
		char rest[68];
	} data = {.site = site};
	if (callback && callback_on[domain][cbid])
		callback(NULL, domain, cbid, &data);
}

/* cudaProfilerStart or cudaProfilerStop, with the driver's inside. */
void fake_profiler(int start)
{
	uint32_t runtime = start ? 171 : 172, driver = start ? 308 : 309;
	call_back(2, runtime, 0);
	call_back(1, driver, 0);
	call_back(1, driver, 1);
	call_back(2, runtime, 1);
}

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
	set(r, 36, fake_result, 4);
	put(r, domain == 1 ? 4 : 5);
}

void fake_kernel(const char *name, uint32_t stream, uint32_t correlation)
{
	uint8_t r[216] = {0};
	if (!on[10])
		return;
	set(r, 0, 10, 4);
	set(r, 6, 32, 2);
	set(r, 16, kernel_time(), 8);
	set(r, 24, kernel_time(), 8);
	kernels++;
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
	for (size_t at = 24; at < 104; at += 4) /* constantMemorySize .. maxGridDimZ, without numMultiprocessors */
		if (at != 44)
			set(r, at, 1000 + at, 4);
	set(r, 116, 1, 4);
	put(r, 8);
	memset(r, 0, sizeof r);
	set(r, 0, 9, 4), set(r, 4, 41, 4), set(r, 8, 42, 4), set(r, 14, 43, 2);
	put(r, 9);
	memset(r, 0, sizeof r);
	set(r, 0, 37, 4), set(r, 4, 51, 4), set(r, 8, 52, 4), set(r, 12, (uint32_t)-5, 4), set(r, 16, 54, 4);
	put(r, 37);
	memset(r, 0, sizeof r);
	set(r, 0, 17, 4), set(r, 4, 1 << 16, 4), set(r, 8, 2, 4), set(r, 12, 71, 4), set(r, 16, 72, 4), set(r, 24, now, 8);
	set(r, 32, now + 9, 8);
	put(r, 17);
	memset(r, 0, sizeof r);
	set(r, 0, 12, 4), set(r, 4, 2, 4), set(r, 8, now, 8), set(r, 16, 81, 4), set(r, 20, 2, 4), set(r, 24, 82, 4);
	set(r, 28, 83, 4), set(r, 40, (uintptr_t) "a range", 8), set(r, 48, (uintptr_t) "a domain", 8);
	put(r, 12);
	set(r, 4, 4, 4), set(r, 8, now + 1, 8), set(r, 40, 0, 8), set(r, 48, 0, 8);
	put(r, 12);
	memset(r, 0, sizeof r);
	set(r, 0, 11, 4), set(r, 4, 5, 4), set(r, 8, 91, 4), set(r, 12, 92, 4), set(r, 16, 93, 4);
	set(r, 24, (uintptr_t) "a stream", 8);
	put(r, 11);
	memset(r, 0, sizeof r);
	set(r, 0, 50, 4), set(r, 4, 3, 4), set(r, 8, 2, 4), set(r, 12, 111, 4), set(r, 16, 112, 4), set(r, 20, 113, 4);
	set(r, 24, 114, 8), set(r, 32, 0x900000001000, 8), set(r, 40, 115, 8), set(r, 48, 116, 8), set(r, 56, now, 8);
	set(r, 64, 117, 8); /* of no meaning: the pool is imported */
	put(r, 50);
	memset(r, 0, sizeof r);
	set(r, 0, 60, 4); /* a kind that was never asked for */
	put(r, 60);
}

/* What is still switched on; 0 after everything was undone. */
int fake_enabled(void)
{
	int n = enabled_calls;
	for (int i = 0; i < 64; i++)
		n += on[i];
	return n;
}

/* A call of a thread that has launched, which holds what a flush needs until one wants it. */
void fake_hold(void)
{
	struct thread *t = this_thread();
	pthread_mutex_lock(&t->lock);
	cues[CUE_HELD] = 1;
	while (!flush_waits)
		;
	pthread_mutex_unlock(&t->lock);
	while (flush_waits)
		usleep(100);
}

uint64_t fake_dropped(void)
{
	return total_dropped;
}
