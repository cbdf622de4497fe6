/* A small CUPTI client, injected into the simulation's own programs: it keeps
 * every record, and checks the rules between them at exit. Prints one
 * "records ..." line and a "FAIL ..." line for each rule that is broken. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

CUptiResult cuptiActivityRegisterCallbacks(CUptiBufferRequested, CUptiBufferCompleted);
CUptiResult cuptiActivityRegisterTimestampCallback(CUptiTimestamp);
CUptiResult cuptiActivityEnable(uint32_t kind);
CUptiResult cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t on);
CUptiResult cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t on);
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint32_t **record);
CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiSetThreadIdType(uint32_t type);
CUptiResult cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char **name);
CUptiResult cuptiSubscribe(void **out, CUptiCallback callback, void *user);
CUptiResult cuptiEnableCallback(uint32_t enable, void *subscriber, uint32_t domain, uint32_t cbid);

int InitializeInjection(void);

struct gpu {
	uint32_t kind, correlation, context, stream;
	uint64_t start, end;
};

struct api {
	uint32_t correlation, tid;
	uint64_t start, end;
};

static struct gpu *gpus;
static struct api *apis;
static size_t gpu_count, api_count, gpu_room, api_room, counts[CUPTI_KIND_COUNT];
static uint32_t tids[1024];
static _Atomic size_t tid_count;
static size_t buffer_size = 1 << 20;
static size_t running, lost, callbacks;
static bool refuse; /* answer requests with NULL */
static uint64_t began;
static uint32_t process;
static int failures;
static pthread_t main_thread;

static uint64_t monotonic(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void fail(const char *what, unsigned long long detail)
{
	if (failures++ < 10)
		printf("FAIL %s (%llu)\n", what, detail);
}

/* Called by the thread that writes the records: records with its id are expected. */
static void requested(uint8_t **buffer, size_t *size, size_t *max)
{
	size_t i = tid_count++;
	if (i < sizeof tids / sizeof *tids)
		tids[i] = (uint32_t)gettid();
	*size = buffer_size;
	*max = 0;
	*buffer = refuse ? NULL : aligned_alloc(8, buffer_size);
}

static void *room(void *array, size_t count, size_t *have, size_t size)
{
	if (count < *have)
		return array;
	*have = *have ? *have * 2 : 4096;
	array = realloc(array, *have * size);
	if (!array)
		abort();
	return array;
}

static void keep_gpu(struct gpu g)
{
	gpus = room(gpus, gpu_count, &gpu_room, sizeof *gpus);
	gpus[gpu_count++] = g;
}

static void keep_api(const CUptiApi *a)
{
	const char *name = NULL;
	apis = room(apis, api_count, &api_room, sizeof *apis);
	apis[api_count++] = (struct api){a->correlationId, a->threadId, a->start, a->end};
	if (cuptiGetCallbackName(a->kind == CUPTI_KIND_DRIVER ? 1 : 2, a->cbid, &name) || !name)
		fail("an API record with an unknown callback id", a->cbid);
	if (a->processId != process)
		fail("an API record of another process", a->processId);
}

static void keep(const uint32_t *record)
{
	const void *r = record;
	const CUptiKernel *k = r;
	const CUptiMemcpy *c = r;
	const CUptiMemcpyPeer *p = r;
	const CUptiMemset *s = r;
	counts[*record]++;
	switch (*record) {
	case CUPTI_KIND_CONCURRENT_KERNEL:
		if (strncmp(k->name, "_Z", 2))
			fail("a kernel without a mangled name", k->correlationId);
		keep_gpu((struct gpu){k->kind, k->correlationId, k->contextId, k->streamId, k->start, k->end});
		break;
	case CUPTI_KIND_MEMCPY:
		keep_gpu((struct gpu){c->kind, c->correlationId, c->contextId, c->streamId, c->start, c->end});
		break;
	case CUPTI_KIND_MEMCPY2:
		keep_gpu((struct gpu){p->kind, p->correlationId, p->contextId, p->streamId, p->start, p->end});
		break;
	case CUPTI_KIND_MEMSET:
		keep_gpu((struct gpu){s->kind, s->correlationId, s->contextId, s->streamId, s->start, s->end});
		break;
	case CUPTI_KIND_DRIVER:
	case CUPTI_KIND_RUNTIME:
		keep_api(r);
		break;
	default:
		events_keep(record);
		break;
	}
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	uint32_t *record = NULL;
	size_t dropped = 0;
	if (pthread_equal(pthread_self(), main_thread))
		fail("buffers delivered by a thread of the program", 0);
	if (valid > size)
		fail("more valid bytes than the buffer has", valid);
	while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
		keep(record);
	cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
	lost += dropped;
	free(buffer);
}

static int by_correlation(const void *a, const void *b)
{
	uint32_t x = ((const struct api *)a)->correlation, y = ((const struct api *)b)->correlation;
	return x < y ? -1 : x > y;
}

static int by_stream(const void *a, const void *b)
{
	const struct gpu *x = a, *y = b;
	if (x->context != y->context)
		return x->context < y->context ? -1 : 1;
	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

static const struct api *call_of(uint32_t correlation)
{
	struct api key = {.correlation = correlation};
	return bsearch(&key, apis, api_count, sizeof *apis, by_correlation);
}

static bool has_call(uint32_t correlation)
{
	return call_of(correlation) != NULL;
}

static void check_gpu(uint64_t ended)
{
	for (size_t i = 0; i < gpu_count; i++) {
		const struct gpu *g = &gpus[i];
		const struct api *a = call_of(g->correlation);
		if (!a)
			fail("GPU work without an API record", g->correlation);
		else if (g->start && g->start < a->start)
			fail("GPU work that starts before its call, ns", a->start - g->start);
		running += !g->end;
		if ((g->end && g->start > g->end) || (g->start && g->start < began) || g->end > ended)
			fail("GPU times outside the run", g->correlation);
	}
}

static void check_streams(void)
{
	qsort(gpus, gpu_count, sizeof *gpus, by_stream);
	for (size_t i = 1; i < gpu_count; i++)
		if (gpus[i].context == gpus[i - 1].context && gpus[i].stream == gpus[i - 1].stream &&
		    gpus[i].start && gpus[i].start < gpus[i - 1].end)
			fail("overlap on a stream, correlation", gpus[i].correlation);
}

static bool known_tid(uint32_t tid)
{
	for (size_t i = 0; i < tid_count && i < sizeof tids / sizeof *tids; i++)
		if (tids[i] == tid)
			return true;
	return false;
}

static void check_apis(uint64_t ended)
{
	qsort(apis, api_count, sizeof *apis, by_correlation);
	for (size_t i = 0; i < api_count; i++) {
		if (i && apis[i].correlation == apis[i - 1].correlation)
			fail("two API records with one correlation id", apis[i].correlation);
		if (tid_count <= sizeof tids / sizeof *tids && !known_tid(apis[i].tid))
			fail("a thread id that no thread has", apis[i].tid);
		if (apis[i].start > apis[i].end || apis[i].start < began || apis[i].end > ended)
			fail("API times outside the run", apis[i].correlation);
	}
}

static void at_exit(void)
{
	if ((uint32_t)getpid() != process)
		return; /* a forked child reports nothing */
	CUptiResult r = cuptiActivityFlushAll(1);
	uint64_t ended = monotonic();
	size_t dropped = 0;
	cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped);
	lost += dropped;
	if (r)
		fail("cuptiActivityFlushAll", (unsigned long long)r);
	check_apis(ended);
	check_gpu(ended);
	check_streams();
	events_check(has_call, counts);
	printf("records kernels=%zu copies=%zu sets=%zu calls=%zu devices=%zu contexts=%zu streams=%zu "
	       "running=%zu dropped=%zu callbacks=%zu\n",
	       counts[CUPTI_KIND_CONCURRENT_KERNEL], counts[CUPTI_KIND_MEMCPY] + counts[CUPTI_KIND_MEMCPY2],
	       counts[CUPTI_KIND_MEMSET], api_count, counts[CUPTI_KIND_DEVICE],
	       counts[CUPTI_KIND_CONTEXT], counts[CUPTI_KIND_STREAM], running, lost, callbacks);
	fflush(stdout);
	free(gpus);
	free(apis);
	if (failures)
		_exit(99);
}

/* The calls that create GPU work, by name: cudatrace switches these on. */
static bool makes_work(const char *name)
{
	static const char *const prefixes[] = {"cuLaunchK", "cuLaunchC", "cuGraphLaunch", "cuMemcpy", "cuMemset",
					       "cudaLaunchK", "cudaLaunchC", "cudaGraphLaunch", "cudaMemcpy", "cudaMemset"};
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static void enable_selected(uint32_t domain)
{
	for (uint32_t cbid = 1; cbid < 1024; cbid++) {
		const char *name;
		if (cuptiGetCallbackName(domain, cbid, &name) || !makes_work(name))
			continue;
		CUptiResult r = domain == 1 ? cuptiActivityEnableDriverApi(cbid, 1) : cuptiActivityEnableRuntimeApi(cbid, 1);
		if (r)
			fail("enabling a callback id", cbid);
	}
}

/* Counts the pairs of entry and exit of kernel launches. */
static void called(void *user, uint32_t domain, uint32_t cbid, const void *info)
{
	static _Thread_local uint64_t *entered;
	const CUptiCallbackData *d = info;
	(void)user, (void)cbid;
	if (domain != 2)
		fail("a callback of a domain that is off", domain);
	if (d->callbackSite == CUPTI_API_ENTER) {
		entered = d->correlationData;
		*entered = d->correlationId;
	} else if (entered == d->correlationData && *entered == d->correlationId && d->symbolName) {
		__atomic_add_fetch(&callbacks, 1, __ATOMIC_RELAXED);
	}
}

static void subscribe(void)
{
	void *subscriber, *second;
	if (cuptiSubscribe(&subscriber, called, NULL) || cuptiEnableCallback(1, subscriber, 2, 211))
		fail("subscribing", 0);
	if (cuptiSubscribe(&second, called, NULL) != CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
		fail("a second subscriber is let in", 0);
}

static void enable(const uint32_t *kinds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (cuptiActivityEnable(kinds[i]))
			fail("cuptiActivityEnable", kinds[i]);
}

__attribute__((visibility("default"))) int InitializeInjection(void)
{
	static const uint32_t gpu_kinds[] = {CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMCPY2,
					     CUPTI_KIND_MEMSET};
	static const uint32_t other_kinds[] = {CUPTI_KIND_DEVICE, CUPTI_KIND_CONTEXT, CUPTI_KIND_STREAM,
					       CUPTI_KIND_DRIVER, CUPTI_KIND_RUNTIME,
					       CUPTI_KIND_NAME, CUPTI_KIND_MARKER, CUPTI_KIND_MARKER_DATA,
					       CUPTI_KIND_OVERHEAD, CUPTI_KIND_MEMORY_POOL};
	static const uint32_t memory_kind = CUPTI_KIND_MEMORY2;
	const char *size = getenv("CHECK_BUFFER"), *mode = getenv("CHECK_MODE");
	began = monotonic();
	process = (uint32_t)getpid();
	main_thread = pthread_self();
	if (size)
		buffer_size = strtoul(size, NULL, 10);
	if (cuptiActivityRegisterCallbacks(requested, completed) || cuptiSetThreadIdType(1) ||
	    cuptiActivityRegisterTimestampCallback(monotonic))
		fail("setting up", 0);
	enable(gpu_kinds, sizeof gpu_kinds / sizeof *gpu_kinds);
	refuse = getenv("CHECK_REFUSE") != NULL;
	if (getenv("CHECK_CALLBACKS"))
		subscribe();
	if (mode && !strcmp(mode, "all")) {
		enable(other_kinds, sizeof other_kinds / sizeof *other_kinds);
		if (!getenv("CHECK_NO_MEMORY"))
			enable(&memory_kind, 1);
	} else {
		enable_selected(1);
		if (!mode || strcmp(mode, "driver"))
			enable_selected(2);
	}
	atexit(at_exit);
	return 1;
}
