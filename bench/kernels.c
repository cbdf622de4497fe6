/*
 * The least cost of recording GPU work: an injected library that has CUPTI write
 * kernel records and throws them away unread. A tracer's cost beyond this is its
 * own. BENCH_RECORDS has CUPTI write other records too: a list of kN (records of
 * kind N), rN and dN (API records of runtime and driver call N) and t (times from
 * CLOCK_MONOTONIC through a callback).
 *
 * The driver loads this library by CUDA_INJECTION64_PATH. The libcupti that the
 * program has mapped is used, else the one whose path is in BENCH_CUPTI. At the
 * program's end the number of bytes of records is written to the file BENCH_BYTES,
 * so that a run in which CUPTI recorded nothing does not look cheap.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CONCURRENT_KERNEL 10
#define BUFFER_BYTES (4 << 20)

typedef void (*requested_fn)(uint8_t **, size_t *, size_t *);
typedef void (*completed_fn)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef int (*register_fn)(requested_fn, completed_fn);
typedef int (*number_fn)(uint32_t);
typedef int (*call_fn)(uint32_t, uint8_t);
typedef int (*clock_fn)(uint64_t (*)(void));

static number_fn flush;
static unsigned long long bytes; /* changed atomically */

static void requested(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = aligned_alloc(4096, BUFFER_BYTES);
	*size = *buffer ? BUFFER_BYTES : 0;
	*records = 0; /* as many as fit */
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context, (void)stream, (void)size;
	__atomic_fetch_add(&bytes, valid, __ATOMIC_RELAXED);
	free(buffer);
}

static void at_end(void)
{
	const char *path = getenv("BENCH_BYTES");
	FILE *f;
	flush(0);
	if (!path || !(f = fopen(path, "w")))
		return;
	fprintf(f, "%llu\n", __atomic_load_n(&bytes, __ATOMIC_RELAXED));
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

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Switches on the records that BENCH_RECORDS lists. */
static int more(void *cupti, number_fn enable)
{
	call_fn runtime = (call_fn)dlsym(cupti, "cuptiActivityEnableRuntimeApi");
	call_fn driver = (call_fn)dlsym(cupti, "cuptiActivityEnableDriverApi");
	clock_fn use_clock = (clock_fn)dlsym(cupti, "cuptiActivityRegisterTimestampCallback");
	const char *p = getenv("BENCH_RECORDS");
	int failed = 0;
	while (p && *p && !failed) {
		char *end = (char *)p + 1;
		uint32_t n = *p == 't' ? 0 : (uint32_t)strtoul(p + 1, &end, 10);
		if (*p == 'k')
			failed = enable(n);
		else if (*p == 'r')
			failed = !runtime || runtime(n, 1);
		else if (*p == 'd')
			failed = !driver || driver(n, 1);
		else
			failed = *p != 't' || !use_clock || use_clock(now);
		p = *end == ',' ? end + 1 : end;
	}
	return failed;
}

int InitializeInjection(void)
{
	void *cupti = library();
	register_fn callbacks = cupti ? (register_fn)dlsym(cupti, "cuptiActivityRegisterCallbacks") : NULL;
	number_fn enable = cupti ? (number_fn)dlsym(cupti, "cuptiActivityEnable") : NULL;
	flush = cupti ? (number_fn)dlsym(cupti, "cuptiActivityFlushAll") : NULL;
	if (!callbacks || !enable || !flush || callbacks(requested, completed) || more(cupti, enable) || enable(CONCURRENT_KERNEL)) {
		fprintf(stderr, "kernels: CUPTI cannot be started\n");
		return 1;
	}
	atexit(at_end);
	return 1;
}
