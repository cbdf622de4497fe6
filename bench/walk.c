/*
 * The walk up the stack from CUPTI's timestamp callback: through the frames of libcupti and
 * libcuda to the return addresses of the driver's callers. The injected library of cudatrace
 * walks in the same way (record/cupti/inject/walk.c), and its stack.c reads the stack here too.
 * A hash of the addresses and the time go into a ring of the thread, so that the compiler
 * cannot leave the walk out.
 */
#include "walk.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include "stack.h"

#define INNER_MAX 48 /* frames of libcupti and libcuda */
#define CHAIN_MAX 4  /* addresses above them */
#define RING 1024

/* The machine code of a library. */
struct code {
	uintptr_t from, to;
};

struct thread {
	struct ct_home home;
	unsigned next;
	struct {
		uint64_t time, hash;
	} ring[RING];
};

static struct code cupti_code, driver_code;
static __thread struct thread *thread __attribute__((tls_model("initial-exec"))); /* never freed */

static bool in(struct code c, uintptr_t address)
{
	return address >= c.from && address < c.to;
}

/* Replaces the address in arg->from by the bounds of the segment around it. */
static int find_segment(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct code *wanted = arg;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + p->p_vaddr;
		struct code segment = {from, from + p->p_memsz};
		if (p->p_type == PT_LOAD && in(segment, wanted->from)) {
			*wanted = segment;
			return 1;
		}
	}
	return 0;
}

/* Finds the code of libcupti, which holds the given function, and of libcuda. */
bool bench_walk_start(void *in_cupti)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	cupti_code.from = (uintptr_t)in_cupti;
	driver_code.from = driver ? (uintptr_t)dlsym(driver, "cuInit") : 0;
	return dl_iterate_phdr(find_segment, &cupti_code) && dl_iterate_phdr(find_segment, &driver_code);
}

static bool thread_known(void)
{
	if (thread)
		return true;
	thread = calloc(1, sizeof *thread);
	if (thread)
		ct_home_find(&thread->home);
	return thread != NULL;
}

/* Goes to the innermost return address outside of libcupti and libcuda. */
static bool leave_driver(struct ct_view *v, uintptr_t *frame, uintptr_t *address)
{
	bool driver = false;
	for (int i = 0; i < INNER_MAX && ct_view_frame(v, *frame, frame, address); i++) {
		if (in(driver_code, *address))
			driver = true;
		else if (!in(cupti_code, *address))
			return driver;
	}
	return false;
}

/* Walks up from a frame of the callback; false when no frame of the driver is on the way. */
__attribute__((noinline)) bool bench_walk(uint64_t now, uintptr_t frame)
{
	struct ct_view v;
	uintptr_t address;
	uint64_t hash = 0;
	if (!thread_known())
		return false;
	ct_view_begin(&v, &thread->home, frame);
	if (!leave_driver(&v, &frame, &address))
		return false;
	for (int count = 0; count < CHAIN_MAX; count++) {
		hash = (hash ^ address) * 0x9e3779b97f4a7c15ull;
		if (!ct_view_frame(&v, frame, &frame, &address))
			break;
	}
	unsigned at = thread->next++ % RING;
	thread->ring[at].time = now;
	thread->ring[at].hash = hash;
	return true;
}
