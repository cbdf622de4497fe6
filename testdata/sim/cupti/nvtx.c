/* NVTX: the program's ranges, marks and names become MARKER and NAME records. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../include/nvtx_abi.h"
#include "internal.h"

struct nvtx_domain {
	const char *name;
};

struct nvtx_string {
	const char *text;
};

/* The ranges of all domains that a thread has pushed and not popped. */
struct stack {
	size_t depth, room;
	struct {
		nvtxDomainHandle_t domain;
		uint32_t id;
	} *ranges;
};

static _Atomic uint32_t next_marker = 1;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void forget(void *arg)
{
	struct stack *s = arg;
	free(s->ranges);
	free(s);
}

static void make_key(void)
{
	pthread_key_create(&key, forget);
}

static struct stack *stack(void)
{
	pthread_once(&once, make_key);
	struct stack *s = pthread_getspecific(key);
	if (!s && (s = calloc(1, sizeof *s)))
		pthread_setspecific(key, s);
	return s;
}

static bool wanted(uint32_t kind)
{
	return cupti_kind(kind) && cupti_hook() && !cupti_forked();
}

static void marker(uint32_t flags, uint32_t id, nvtxDomainHandle_t d, const char *text)
{
	CUptiMarker r = {
		.kind = CUPTI_KIND_MARKER, .flags = flags, .id = id, .objectKind = CUPTI_OBJECT_THREAD,
		.object = {{cupti_process_id(), cupti_thread_id(), 0}}, .domain = d ? d->name : NULL,
	};
	if (!wanted(CUPTI_KIND_MARKER))
		return;
	r.timestamp = cupti_clock();
	r.name = cupti_keep(text);
	cupti_store(&r, sizeof r);
}

static const char *message(const nvtxEventAttributes_t *a)
{
	if (a->messageType == NVTX_MESSAGE_ASCII)
		return a->message.ascii;
	return a->messageType == NVTX_MESSAGE_REGISTERED && a->message.registered ? a->message.registered->text : NULL;
}

static uint32_t begin(uint32_t flags, nvtxDomainHandle_t d, const nvtxEventAttributes_t *a, const char *text)
{
	uint32_t id = atomic_fetch_add(&next_marker, 1);
	marker(flags, id, d, a ? message(a) : text);
	return id;
}

/* The number of ranges of d that the thread has open. */
static int level(const struct stack *s, nvtxDomainHandle_t d)
{
	int n = 0;
	for (size_t i = 0; i < s->depth; i++)
		n += s->ranges[i].domain == d;
	return n;
}

static int push(nvtxDomainHandle_t d, const nvtxEventAttributes_t *a, const char *text)
{
	struct stack *s = stack();
	if (s && s->depth == s->room) {
		size_t room = s->room ? s->room * 2 : 16;
		void *bigger = realloc(s->ranges, room * sizeof *s->ranges);
		if (!bigger)
			return -1;
		s->ranges = bigger;
		s->room = room;
	}
	if (!s)
		return -1;
	int n = level(s, d);
	s->ranges[s->depth].domain = d;
	s->ranges[s->depth++].id = begin(CUPTI_MARKER_START, d, a, text);
	return n;
}

static int pop(nvtxDomainHandle_t d)
{
	struct stack *s = stack();
	for (size_t i = s ? s->depth : 0; i-- > 0;) {
		if (s->ranges[i].domain != d)
			continue;
		marker(CUPTI_MARKER_END, s->ranges[i].id, d, NULL);
		memmove(&s->ranges[i], &s->ranges[i + 1], (--s->depth - i) * sizeof *s->ranges);
		return level(s, d);
	}
	return -1;
}

static void name(uint32_t object, CUptiObject id, const char *text)
{
	CUptiName r = {.kind = CUPTI_KIND_NAME, .objectKind = object, .object = id, .name = cupti_keep(text)};
	if (wanted(CUPTI_KIND_NAME))
		cupti_store(&r, sizeof r);
}

static void name_stream(void *stream, const char *text)
{
	struct sim_hook *h = cupti_hook();
	if (h)
		name(CUPTI_OBJECT_STREAM, (CUptiObject){{0, h->context_id(NULL), h->stream_id(stream)}}, text);
}

static void name_context(void *context, const char *text)
{
	struct sim_hook *h = cupti_hook();
	if (h)
		name(CUPTI_OBJECT_CONTEXT, (CUptiObject){{0, h->context_id(context), 0}}, text);
}

static void name_device(int device, const char *text)
{
	name(CUPTI_OBJECT_DEVICE, (CUptiObject){{(uint32_t)device, 0, 0}}, text);
}

static nvtxDomainHandle_t make_domain(const char *text)
{
	nvtxDomainHandle_t d = malloc(sizeof *d);
	if (d)
		*d = (struct nvtx_domain){cupti_keep(text)};
	return d;
}

static nvtxStringHandle_t make_string(const char *text)
{
	nvtxStringHandle_t s = malloc(sizeof *s);
	if (s)
		s->text = cupti_keep(text);
	return s;
}

/* The replacements of the program's functions. */
static void on_MarkEx(const nvtxEventAttributes_t *a)
{
	begin(CUPTI_MARKER_INSTANT, NULL, a, NULL);
}

static void on_MarkA(const char *text)
{
	begin(CUPTI_MARKER_INSTANT, NULL, NULL, text);
}

static nvtxRangeId_t on_RangeStartEx(const nvtxEventAttributes_t *a)
{
	return begin(CUPTI_MARKER_START, NULL, a, NULL);
}

static nvtxRangeId_t on_RangeStartA(const char *text)
{
	return begin(CUPTI_MARKER_START, NULL, NULL, text);
}

static void on_RangeEnd(nvtxRangeId_t id)
{
	marker(CUPTI_MARKER_END, (uint32_t)id, NULL, NULL);
}

static int on_RangePushEx(const nvtxEventAttributes_t *a)
{
	return push(NULL, a, NULL);
}

static int on_RangePushA(const char *text)
{
	return push(NULL, NULL, text);
}

/* Names are at most 63 characters, of those that take two bytes in UTF-8 at most. */
static int on_RangePushW(const wchar_t *text)
{
	char bytes[128];
	size_t n = 0;
	for (; *text && n < sizeof bytes - 2; text++) {
		if (*text >= 0x80)
			bytes[n++] = (char)(0xc0 | *text >> 6);
		bytes[n++] = (char)(*text >= 0x80 ? 0x80 | (*text & 0x3f) : *text);
	}
	bytes[n] = 0;
	return push(NULL, NULL, bytes);
}

static int on_RangePop(void)
{
	return pop(NULL);
}

static void on_NameOsThreadA(uint32_t tid, const char *text)
{
	name(CUPTI_OBJECT_THREAD, (CUptiObject){{cupti_process_id(), tid, 0}}, text);
}

static void on_DomainMarkEx(nvtxDomainHandle_t d, const nvtxEventAttributes_t *a)
{
	begin(CUPTI_MARKER_INSTANT, d, a, NULL);
}

static nvtxRangeId_t on_DomainRangeStartEx(nvtxDomainHandle_t d, const nvtxEventAttributes_t *a)
{
	return begin(CUPTI_MARKER_START, d, a, NULL);
}

static void on_DomainRangeEnd(nvtxDomainHandle_t d, nvtxRangeId_t id)
{
	marker(CUPTI_MARKER_END, (uint32_t)id, d, NULL);
}

static int on_DomainRangePushEx(nvtxDomainHandle_t d, const nvtxEventAttributes_t *a)
{
	return push(d, a, NULL);
}

static int on_DomainRangePop(nvtxDomainHandle_t d)
{
	return pop(d);
}

/* A string of any domain; domains and strings are never freed. */
static nvtxStringHandle_t on_DomainRegisterStringA(nvtxDomainHandle_t d, const char *text)
{
	(void)d;
	return make_string(text);
}

static nvtxDomainHandle_t on_DomainCreateA(const char *text)
{
	return make_domain(text);
}

static void on_DomainDestroy(nvtxDomainHandle_t d)
{
	(void)d;
}

static void on_NameCuDeviceA(int device, const char *text)
{
	name_device(device, text);
}

static void on_NameCuContextA(void *context, const char *text)
{
	name_context(context, text);
}

static void on_NameCuStreamA(void *stream, const char *text)
{
	name_stream(stream, text);
}

static void on_NameCudaDeviceA(int device, const char *text)
{
	name_device(device, text);
}

static void on_NameCudaStreamA(void *stream, const char *text)
{
	name_stream(stream, text);
}

CUPTI_EXPORT int InitializeInjectionNvtx2(nvtx_exporter exporter);
CUPTI_EXPORT int InitializeInjectionNvtx2(nvtx_exporter exporter)
{
	static const struct {
		uint32_t module, id;
		nvtx_function function;
	} ours[] = {
#define OURS(module, name, result, params, args, none) \
	{NVTX_MODULE_##module, NVTX_##module##_##name, (nvtx_function)on_##name},
		NVTX_FUNCTIONS(OURS)
#undef OURS
	};
	const nvtx_callbacks *callbacks = exporter ? exporter(NVTX_TABLE_CALLBACKS) : NULL;
	if (!callbacks || callbacks->struct_size < sizeof *callbacks)
		return 0;
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
		nvtx_table table = NULL;
		uint32_t size = 0;
		if (callbacks->GetModuleFunctionTable(ours[i].module, &table, &size) && ours[i].id < size && table[ours[i].id])
			*table[ours[i].id] = ours[i].function;
	}
	return 1;
}
