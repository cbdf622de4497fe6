/*
 * clients.c: what CUPTI says to a second client, in a process that has used CUDA for long. Two clients, A and B, take turns;
 * each row has an answer of CUPTI's (0: success), or what was counted. No headers, no nvcc.
 * Usage: clients [LIBCUPTI (libcupti.so.13)]
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMSET = 2, DRIVER = 4, OVERHEAD = 17, FLUSH = 1 << 16, PER_THREAD = 9, WORK = 5, TURNS = 10 };

static void *cuda, *cupti;
static int (*flush_all)(uint32_t), (*enable)(uint32_t), (*disable)(uint32_t), (*next_record)(uint8_t *, size_t, void **);
static int (*subscribe)(void **, void *, void *), (*unsubscribe)(void *), (*count_devices)(int *), (*finalize)(void);
static int (*set)(uint64_t, unsigned char, size_t, void *), (*synchronize)(void);
static int (*register_client)(void *, void *), (*register_clock)(void *), (*timestamp)(uint64_t *);
static int (*set_attribute)(uint32_t, size_t *, void *), (*get_attribute)(uint32_t, size_t *, void *);
static uint64_t memory;

static struct client {
	volatile int requested, completed, foreign, memsets, calls, flushes;
	uint8_t *buffers[4096];
} a, b;

static void *find(void *library, const char *name)
{
	void *f = library ? dlsym(library, name) : NULL;
	if (!f)
		exit((fprintf(stderr, "clients: no %s\n", name), 1));
	return f;
}

static void request(struct client *c, uint8_t **buffer, size_t *size, size_t *most)
{
	*buffer = aligned_alloc(8, *size = 1 << 20);
	*most = 0;
	c->buffers[c->requested++ % 4096] = *buffer;
}

static void complete(struct client *c, uint8_t *buffer, size_t valid)
{
	int own = 0;
	for (int i = 0; i < c->requested && i < 4096; i++)
		own |= c->buffers[i] == buffer;
	c->completed++;
	c->foreign += !own;
	for (void *r = NULL; valid > 0 && next_record(buffer, valid, &r) == 0;) {
		const uint32_t *words = r;
		c->memsets += words[0] == MEMSET;
		c->calls += words[0] == DRIVER;
		c->flushes += words[0] == OVERHEAD && words[1] == FLUSH;
	}
}

static void request_a(uint8_t **p, size_t *size, size_t *most) { request(&a, p, size, most); }
static void request_b(uint8_t **p, size_t *size, size_t *most) { request(&b, p, size, most); }
static void complete_a(void *c, uint32_t s, uint8_t *p, size_t n, size_t valid) { (void)c, (void)s, (void)n, complete(&a, p, valid); }
static void complete_b(void *c, uint32_t s, uint8_t *p, size_t n, size_t valid) { (void)c, (void)s, (void)n, complete(&b, p, valid); }
static uint64_t constant(void) { return 42; }
static void called(void *u, uint32_t d, uint32_t i, const void *p) { (void)u, (void)d, (void)i, (void)p; }

static void row(const char *what, int value) { printf("%-88s %d\n", what, value); }

static void work(void)
{
	for (int i = 0; i < WORK; i++)
		set(memory, (unsigned char)i, 1 << 16, NULL);
	synchronize();
}

static void turn(int (*change)(uint32_t), const char *client)
{
	char what[80];
	snprintf(what, sizeof what, "%s memset", change == enable ? "cuptiActivityEnable" : "cuptiActivityDisable");
	row(what, change(MEMSET));
	work();
	snprintf(what, sizeof what, "cuptiActivityFlushAll, %s registered, memset %s", client, change == enable ? "on" : "off");
	row(what, flush_all(change == enable ? 0 : 1));
}

/* What comes of a call of the driver's and a flush, again and again, while nothing else happens. */
static void idle(struct client *c, const char *state)
{
	char what[100];
	int n, before = c->completed, calls = c->calls, flushes = c->flushes;
	for (int i = 0; i < TURNS; i++) {
		count_devices(&n);
		flush_all(0);
	}
	snprintf(what, sizeof what, "%s: buffers of %d idle flushes", state, TURNS);
	row(what, c->completed - before);
	row("  records of flushes in them", c->flushes - flushes);
	row("  records of calls in them", c->calls - calls);
}

static void buffer_per_thread(uint8_t on, const char *what)
{
	size_t size = sizeof on;
	row(what, set_attribute(PER_THREAD, &size, &on));
}

int main(int argc, char **argv)
{
	int (*init)(unsigned), (*retain)(void **, int), (*current)(void *), (*allocate)(uint64_t *, size_t);
	void *context, *subscriber;
	uint64_t now = 0;
	uint8_t is = 0;
	size_t size = sizeof is;
	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	*(void **)&init = find(cuda, "cuInit"), *(void **)&retain = find(cuda, "cuDevicePrimaryCtxRetain");
	*(void **)&current = find(cuda, "cuCtxSetCurrent"), *(void **)&allocate = find(cuda, "cuMemAlloc_v2");
	*(void **)&set = find(cuda, "cuMemsetD8Async"), *(void **)&synchronize = find(cuda, "cuCtxSynchronize");
	*(void **)&count_devices = find(cuda, "cuDeviceGetCount");
	if (init(0) || retain(&context, 0) || current(context) || allocate(&memory, 1 << 16))
		exit((fprintf(stderr, "clients: no CUDA\n"), 1));
	work();
	cupti = dlopen(argc > 1 ? argv[1] : "libcupti.so.13", RTLD_NOW);
	*(void **)&flush_all = find(cupti, "cuptiActivityFlushAll"), *(void **)&next_record = find(cupti, "cuptiActivityGetNextRecord");
	*(void **)&enable = find(cupti, "cuptiActivityEnable"), *(void **)&disable = find(cupti, "cuptiActivityDisable");
	*(void **)&subscribe = find(cupti, "cuptiSubscribe"), *(void **)&unsubscribe = find(cupti, "cuptiUnsubscribe");
	*(void **)&register_client = find(cupti, "cuptiActivityRegisterCallbacks"), *(void **)&finalize = find(cupti, "cuptiFinalize");
	*(void **)&register_clock = find(cupti, "cuptiActivityRegisterTimestampCallback"), *(void **)&timestamp = find(cupti, "cuptiGetTimestamp");
	*(void **)&set_attribute = find(cupti, "cuptiActivitySetAttribute"), *(void **)&get_attribute = find(cupti, "cuptiActivityGetAttribute");

	row("cuptiActivityFlushAll, nobody registered", flush_all(0));
	row("cuptiSubscribe", subscribe(&subscriber, called, NULL)), row("cuptiUnsubscribe", unsubscribe(subscriber));
	row("cuptiActivityFlushAll, nobody registered, after these", flush_all(0));
	row("A registers", register_client(request_a, complete_a));
	row("cuptiActivityFlushAll, A registered, nothing was ever on", flush_all(0));
	turn(enable, "A"), turn(disable, "A");
	row("A's memsets, of 5", a.memsets), row("buffers that CUPTI holds of A", a.requested - a.completed);
	row("B registers", register_client(request_b, complete_b)), turn(enable, "B"), turn(disable, "B");
	row("B's memsets, of 5", b.memsets), row("buffers that came to B and are A's", b.foreign), row("A's memsets, of 5", a.memsets);
	row("A registers anew", register_client(request_a, complete_a)), turn(enable, "A"), turn(disable, "A");
	row("A's memsets, of 10", a.memsets), row("buffers that CUPTI holds of B", b.requested - b.completed - a.foreign);
	enable(DRIVER), enable(OVERHEAD), idle(&a, "driver and overhead on");
	disable(OVERHEAD), flush_all(0), idle(&a, "driver on"), disable(DRIVER), flush_all(0);
	row("a buffer per thread: cuptiActivityGetAttribute", get_attribute(PER_THREAD, &size, &is)), row("  its value", is);
	buffer_per_thread(0, "  set to 0, as Kineto does behind a profile");
	enable(DRIVER), enable(OVERHEAD), idle(&a, "without, driver and overhead on"), disable(OVERHEAD), disable(DRIVER), flush_all(0);
	buffer_per_thread(1, "  set to 1 again");
	row("cuptiActivityRegisterTimestampCallback, of one that returns 42", register_clock(constant));
	row("cuptiGetTimestamp", timestamp(&now)), row("  which says 42", now == 42);
	row("cuptiFinalize", finalize()), row("cuptiActivityFlushAll behind it", flush_all(0));
	row("A registers", register_client(request_a, complete_a)), turn(enable, "A"), turn(disable, "A");
	row("A's memsets, of 15", a.memsets);
	return 0;
}
