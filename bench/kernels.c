/*
 * The least cost of recording GPU work: an injected library that has CUPTI write
 * kernel records and throws them away unread. A tracer's cost beyond this is its
 * own. BENCH_RECORDS is a list of other parts to switch on as well:
 *
 *	kN        records of kind N
 *	rN, dN    API records of call N of the runtime, of the driver
 *	t         times from CLOCK_MONOTONIC through a callback
 *	w         a walk up the stack in this callback (walk.c)
 *	c         the records are read and counted
 *
 * BENCH_PARTS, where it is set, takes the place of the kernel records: a list of parts from which
 * the program switches to others with bench_parts. CUPTI makes API records only of a domain of
 * which one call or more had them when the runtime started.
 *
 * The driver loads this library by CUDA_INJECTION64_PATH. The libcupti that the
 * program has mapped is used, else the one whose path is in BENCH_CUPTI. At the
 * program's end the number of bytes of records is written to the file BENCH_BYTES,
 * so that a run in which CUPTI recorded nothing does not look cheap.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "walk.h"

enum kind { MEMCPY = 1, MEMSET = 2, DRIVER = 4, RUNTIME = 5, CONCURRENT_KERNEL = 10 };
#define BUFFER_BYTES (4 << 20)

typedef void (*requested_fn)(uint8_t **, size_t *, size_t *);
typedef void (*completed_fn)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef int (*register_fn)(requested_fn, completed_fn);
typedef int (*number_fn)(uint32_t);
typedef int (*call_fn)(uint32_t, uint8_t);
typedef int (*clock_fn)(uint64_t (*)(void));
typedef int (*next_fn)(uint8_t *, size_t, void **);
typedef atomic_ullong count;

/* The functions of CUPTI; the last three may be missing. */
static struct {
	register_fn callbacks;
	number_fn enable, disable, flush;
	next_fn next;
	call_fn runtime, driver;
	clock_fn clock;
} cupti;
static bool started;

static count bytes;                /* of all records */
static count gpu, driver, runtime; /* records since the parts were switched */
static count answers, walks;       /* calls of the timestamp callback since then; those that found the driver's caller */
static atomic_bool counting, walking;

static void add(count *to, unsigned long long n)
{
	atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static void requested(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = aligned_alloc(4096, BUFFER_BYTES);
	*size = *buffer ? BUFFER_BYTES : 0;
	*records = 0; /* as many as fit */
}

static void count_record(uint32_t kind)
{
	if (kind == CONCURRENT_KERNEL || kind == MEMCPY || kind == MEMSET)
		add(&gpu, 1);
	else if (kind == DRIVER)
		add(&driver, 1);
	else if (kind == RUNTIME)
		add(&runtime, 1);
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	void *record = NULL;
	(void)context, (void)stream, (void)size;
	add(&bytes, valid);
	while (counting && cupti.next(buffer, valid, &record) == 0)
		count_record(*(uint32_t *)record);
	free(buffer);
}

static void at_end(void)
{
	const char *path = getenv("BENCH_BYTES");
	FILE *f;
	cupti.flush(0);
	if (!path || !(f = fopen(path, "w")))
		return;
	fprintf(f, "%llu\n", atomic_load(&bytes));
	fclose(f);
}

static void *library(void)
{
	static const char *const names[] = {"libcupti.so.13", "libcupti.so.12"};
	const char *path = getenv("BENCH_CUPTI");
	void *handle = NULL;
	for (size_t i = 0; !handle && i < sizeof names / sizeof *names; i++)
		handle = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
	if (!handle && path && *path)
		handle = dlopen(path, RTLD_NOW);
	return handle;
}

static bool load(void)
{
	void *l = library();
	if (!l)
		return false;
	cupti.callbacks = (register_fn)dlsym(l, "cuptiActivityRegisterCallbacks");
	cupti.enable = (number_fn)dlsym(l, "cuptiActivityEnable");
	cupti.disable = (number_fn)dlsym(l, "cuptiActivityDisable");
	cupti.flush = (number_fn)dlsym(l, "cuptiActivityFlushAll");
	cupti.next = (next_fn)dlsym(l, "cuptiActivityGetNextRecord");
	cupti.runtime = (call_fn)dlsym(l, "cuptiActivityEnableRuntimeApi");
	cupti.driver = (call_fn)dlsym(l, "cuptiActivityEnableDriverApi");
	cupti.clock = (clock_fn)dlsym(l, "cuptiActivityRegisterTimestampCallback");
	return cupti.callbacks && cupti.enable && cupti.disable && cupti.flush && cupti.next;
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The function that CUPTI calls to learn the time. */
static uint64_t timestamp(void)
{
	uint64_t time = now();
	bool found = walking && bench_walk(time, (uintptr_t)__builtin_frame_address(0));
	if (counting) {
		add(&answers, 1);
		add(&walks, found);
	}
	return time;
}

/* Switches one part on or off; false when CUPTI refuses, or there is no such part. */
static bool turn(char part, uint32_t n, bool on)
{
	switch (part) {
	case 'k':
		return (on ? cupti.enable : cupti.disable)(n) == 0;
	case 'r':
		return cupti.runtime && cupti.runtime(n, on) == 0;
	case 'd':
		return cupti.driver && cupti.driver(n, on) == 0;
	case 't': /* stays on */
		return on && cupti.clock && cupti.clock(timestamp) == 0;
	case 'w':
		walking = on;
		return !on || bench_walk_start((void *)cupti.flush);
	case 'c':
		counting = on;
		return true;
	}
	return false;
}

/* Switches each part of a list. */
static bool turn_all(const char *list, bool on)
{
	while (list && *list) {
		char *end = (char *)list + 1;
		uint32_t n = strchr("krd", *list) ? (uint32_t)strtoul(list + 1, &end, 10) : 0;
		if (!turn(*list, n, on))
			return false;
		list = *end == ',' ? end + 1 : end;
	}
	return true;
}

/* Switches from the parts that are on to those of a list. */
static bool switch_to(const char *list)
{
	static char on[256];
	if (strlen(list) >= sizeof on || !turn_all(on, false))
		return false;
	strcpy(on, list);
	return turn_all(on, true);
}

/*
 * Switches to the parts of a list, while the program does no GPU work. Returns the counts up to
 * now as text, or NULL when CUPTI refuses.
 */
const char *bench_parts(const char *list)
{
	static char said[160];
	if (!started || cupti.flush(1) != 0)
		return NULL;
	snprintf(said, sizeof said, "gpu=%llu driver=%llu runtime=%llu answers=%llu walks=%llu", atomic_exchange(&gpu, 0),
		 atomic_exchange(&driver, 0), atomic_exchange(&runtime, 0), atomic_exchange(&answers, 0), atomic_exchange(&walks, 0));
	return switch_to(list) ? said : NULL;
}

static bool begin(void)
{
	const char *parts = getenv("BENCH_PARTS");
	return load() && cupti.callbacks(requested, completed) == 0 && turn_all(getenv("BENCH_RECORDS"), true) &&
	       (parts ? switch_to(parts) : turn('k', CONCURRENT_KERNEL, true));
}

int InitializeInjection(void)
{
	started = begin();
	if (!started) {
		fprintf(stderr, "kernels: CUPTI cannot be started\n");
		return 1;
	}
	atexit(at_end);
	return 1;
}
