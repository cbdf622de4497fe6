/*
 * The least cost of recording GPU work: an injected library that has CUPTI write the records that cudatrace takes, into
 * buffers as large, flushed as often, and throws them away unread. A tracer's cost beyond this is its own.
 *
 *	BENCH_RECORDS     records beside those of kernels: kN of kind N; rN, dN for call N of the runtime, of the driver
 *	BENCH_BUFFER      bytes of a buffer (1 MiB)
 *	BENCH_FLUSH       ms between flushes (500), 0 for none
 *	BENCH_ATTRIBUTES  ID=VALUE,... for cuptiActivitySetAttribute, of size_t; or ID:VALUE, of uint8_t
 *
 * The driver loads this library by CUDA_INJECTION64_PATH. The libcupti that the program has mapped is used, else the one
 * whose path is in BENCH_CUPTI. At the program's end the number of bytes of records is written to the file BENCH_BYTES, so
 * that a run in which CUPTI recorded nothing does not look cheap.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONCURRENT_KERNEL 10
#define MOST_BUFFERS 64

/* The functions of CUPTI that are used. */
static int (*register_callbacks)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
static int (*enable)(uint32_t);
static int (*flush)(uint32_t);
static int (*runtime)(uint32_t, uint8_t);
static int (*driver)(uint32_t, uint8_t);
static int (*set_attribute)(uint32_t, size_t *, void *);

static atomic_ullong bytes; /* of all records */
static size_t buffer_bytes;
static useconds_t flush_us;

/* Buffers that CUPTI has given back. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *idle[MOST_BUFFERS];
static unsigned idle_count;

static void requested(uint8_t **buffer, size_t *size, size_t *records)
{
	pthread_mutex_lock(&lock);
	*buffer = idle_count ? idle[--idle_count] : NULL;
	pthread_mutex_unlock(&lock);
	if (!*buffer)
		*buffer = malloc(buffer_bytes);
	*size = *buffer ? buffer_bytes : 0;
	*records = 0; /* as many as fit */
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context, (void)stream, (void)size;
	atomic_fetch_add_explicit(&bytes, valid, memory_order_relaxed);
	pthread_mutex_lock(&lock);
	if (idle_count < MOST_BUFFERS)
		idle[idle_count++] = buffer, buffer = NULL;
	pthread_mutex_unlock(&lock);
	free(buffer);
}

static void *flushes(void *unused)
{
	for (;;) {
		usleep(flush_us);
		flush(0);
	}
	return unused;
}

static void at_end(void)
{
	const char *path = getenv("BENCH_BYTES");
	FILE *f;
	flush(0);
	if (!path || !(f = fopen(path, "w")))
		return;
	fprintf(f, "%llu\n", atomic_load(&bytes));
	fclose(f);
}

static bool load(void)
{
	static const char *const names[] = {"libcupti.so.13", "libcupti.so.12"};
	const char *path = getenv("BENCH_CUPTI");
	void *l = NULL;
	for (size_t i = 0; !l && i < sizeof names / sizeof *names; i++)
		l = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
	if (!l && path && *path)
		l = dlopen(path, RTLD_NOW);
	if (!l)
		return false;
	*(void **)&register_callbacks = dlsym(l, "cuptiActivityRegisterCallbacks");
	*(void **)&enable = dlsym(l, "cuptiActivityEnable");
	*(void **)&flush = dlsym(l, "cuptiActivityFlushAll");
	*(void **)&runtime = dlsym(l, "cuptiActivityEnableRuntimeApi");
	*(void **)&driver = dlsym(l, "cuptiActivityEnableDriverApi");
	*(void **)&set_attribute = dlsym(l, "cuptiActivitySetAttribute");
	return register_callbacks && enable && flush && runtime && driver && set_attribute;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text ? strtoull(text, NULL, 0) : otherwise;
}

static bool set_attributes(const char *list)
{
	while (list && *list) {
		char *end;
		uint32_t id = (uint32_t)strtoul(list, &end, 10);
		bool narrow = *end == ':';
		size_t value = strtoull(end + 1, &end, 0), size = narrow ? 1 : sizeof value;
		if (set_attribute(id, &size, &value) != 0)
			return false;
		list = *end == ',' ? end + 1 : end;
	}
	return true;
}

static bool enable_records(const char *list)
{
	while (list && *list) {
		char *end, part = *list;
		uint32_t n = (uint32_t)strtoul(list + 1, &end, 10);
		if ((part == 'k' ? enable(n) : part == 'r' ? runtime(n, 1) : driver(n, 1)) != 0)
			return false;
		list = *end == ',' ? end + 1 : end;
	}
	return true;
}

int InitializeInjection(void)
{
	pthread_t thread;
	buffer_bytes = number("BENCH_BUFFER", 1 << 20);
	flush_us = (useconds_t)number("BENCH_FLUSH", 500) * 1000;
	if (!load() || !set_attributes(getenv("BENCH_ATTRIBUTES")) || register_callbacks(requested, completed) != 0 ||
	    !enable_records(getenv("BENCH_RECORDS")) || enable(CONCURRENT_KERNEL) != 0 ||
	    (flush_us && pthread_create(&thread, NULL, flushes, NULL) != 0))
		fprintf(stderr, "kernels: CUPTI cannot be started as asked\n"); /* and writes no bytes */
	else
		atexit(at_end);
	return 1;
}
