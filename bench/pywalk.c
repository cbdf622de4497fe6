/*
 * What the Python frames above a call cost, in parts: record/internal/cupti/inject/python.c in a process without CUDA. pywalk.py
 * builds this and calls it from Python functions of known depth. Between two walks other memory is touched, as a launch does.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "base.h"
#include "load.h"
#include "python.h"
#include "queue.h"
#include "stack.h"

void *ct_alloc(size_t size)
{
	void *p = aligned_alloc(64, (size + 63) & ~(size_t)63);
	return p ? memset(p, 0, size) : NULL;
}
bool ct_here(void)
{
	return true;
}
bool ct_load_keep(void *function, const char *name)
{
	(void)function, (void)name;
	return true;
}
void ct_queue_note(uint32_t severity, const char *text)
{
	(void)severity, (void)text;
}
bool ct_queue_definition(const void *record, size_t size, const char *text, size_t length)
{
	(void)record, (void)size, (void)text, (void)length;
	return true;
}

static struct ct_python layout;
static void *(*gil_state)(void);
static struct ct_home home;
static struct ct_python_thread *thread;
static volatile uint64_t sink;

static uint64_t at8(uintptr_t at)
{
	return *(const volatile uint64_t *)at;
}

static uintptr_t first_frame(void)
{
	uintptr_t state = (uintptr_t)gil_state();
	uintptr_t frame = at8(state + (uintptr_t)layout.thread_frame);
	return layout.thread_cframe < 0 ? frame : at8(frame + (uintptr_t)layout.thread_cframe);
}

static uint32_t nothing(void)
{
	return 0;
}

static uint32_t state(void)
{
	return (uint32_t)first_frame();
}

/* The least that any walk does: it follows the pointers. */
static uint32_t chase(void)
{
	uint32_t n = 0;
	for (uintptr_t f = first_frame(); f; f = at8(f + (uintptr_t)layout.frame_previous))
		n++;
	return n;
}

/* And reads where each frame is. */
static uint32_t frames(void)
{
	uint64_t sum = 0;
	for (uintptr_t f = first_frame(); f; f = at8(f + (uintptr_t)layout.frame_previous))
		sum += at8(f + (uintptr_t)layout.frame_code) ^ at8(f + (uintptr_t)layout.frame_instruction);
	return (uint32_t)sum;
}

/* And looks into each code object. */
static uint32_t codes(void)
{
	uint64_t sum = 0;
	for (uintptr_t f = first_frame(); f; f = at8(f + (uintptr_t)layout.frame_previous)) {
		uintptr_t code = at8(f + (uintptr_t)layout.frame_code);
		sum += at8(f + (uintptr_t)layout.frame_instruction);
		if (layout.frame_owner < 0 || *(const volatile uint8_t *)(f + (uintptr_t)layout.frame_owner) != 3)
			sum += at8(code + (uintptr_t)layout.code_first_line);
	}
	return (uint32_t)sum;
}

static uint32_t whole(void)
{
	struct ct_view v; /* as walk.c has it by then */
	ct_view_begin(&v, &home, (uintptr_t)__builtin_frame_address(0));
	return ct_python_number(thread, &home, (uintptr_t)__builtin_frame_address(0));
}

static uint32_t (*const parts[])(void) = {nothing, state, chase, frames, codes, whole};
#define PARTS (sizeof parts / sizeof parts[0])

int pywalk_start(const struct ct_python *p)
{
	uintptr_t f = (uintptr_t)p->gil_state;
	layout = *p;
	memcpy(&gil_state, &f, sizeof gil_state);
	thread = ct_alloc(sizeof *thread);
	ct_home_find(&home);
	return ct_python_start(8 << 20) && ct_python_use(p);
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* The median time of each part, in ns, in turns: other is the bytes that are touched in between. */
void pywalk_run(uint32_t rounds, size_t other, double *ns)
{
	static unsigned char *memory;
	static double per_tick;
	if (!memory) {
		memory = ct_alloc(256u << 20);
		struct timespec a, b;
		clock_gettime(CLOCK_MONOTONIC, &a);
		uint64_t t = __rdtsc();
		do
			clock_gettime(CLOCK_MONOTONIC, &b);
		while ((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec < 50000000);
		per_tick = (double)((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec) / (double)(__rdtsc() - t);
	}
	uint64_t *times = malloc(PARTS * rounds * sizeof *times);
	for (uint32_t r = 0; r < rounds; r++) {
		for (size_t p = 0; p < PARTS; p++) {
			for (size_t i = 0; i < other; i += 64)
				memory[i]++;
			unsigned cpu;
			_mm_lfence();
			uint64_t begun = __rdtsc();
			_mm_lfence();
			sink += parts[p]();
			uint64_t ended = __rdtscp(&cpu);
			_mm_lfence();
			times[p * rounds + r] = ended - begun;
		}
	}
	for (size_t p = 0; p < PARTS; p++) {
		qsort(times + p * rounds, rounds, sizeof *times, ascending);
		ns[p] = (double)times[p * rounds + rounds / 2] * per_tick;
	}
	free(times);
}
