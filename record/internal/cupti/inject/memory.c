/*
 * What calls allocate and free, where they are not probed. CUPTI calls a subscriber back at both ends of the few functions
 * of the driver that do, and shows it their arguments. CUPTI's records of memory would need no subscription, but they lack
 * stream-ordered memory, come when the memory is freed, and can end the program (kinds.def): they are never on. The
 * subscriber is told, too, of calls that launch graphs or make them ready, whose records may never come (ct_graphs).
 *
 * A process has one subscription, and a profiler in the program may want it: client.c has it given back then, and taken again
 * a while after the profiler has ended: one that tears CUPTI down does so at once.
 */
#include "memory.h"

#include <stdatomic.h>
#include <string.h>

#include "base.h"
#include "calls.h"
#include "enable.h"
#include "link.h"
#include "queue.h"

#define LOWEST 0x10000u /* nothing is mapped below */
#define OUT_OF_MEMORY 2 /* CUDA_ERROR_OUT_OF_MEMORY: what was asked for is of use, too */
#define SUBSCRIBE_WAIT CT_SECOND
#define AGAIN_WAIT (200 * CT_MS)

static struct ct_function *functions;
static unsigned functions_kept;
static uint16_t numbers[CT_CBID_MAX]; /* of the function that a callback is of, from 1; or OF_GRAPH */
#define OF_GRAPH UINT16_MAX
static const struct ct_cupti *cupti;
static void *_Atomic subscriber;
static struct ct_lock subscribing; /* a profiler that subscribes meanwhile waits, or CUPTI would refuse it; no callback takes it */
static _Atomic uint64_t given;     /* when a profiler got the subscription; 0 while none had it */
static _Atomic uint64_t returned;  /* when no profiler wanted it any more; 0 until then */
static atomic_bool over;

static uint64_t word(const char *from, unsigned bytes)
{
	uint32_t narrow;
	uint64_t wide;
	if (bytes == sizeof narrow) {
		memcpy(&narrow, from, sizeof narrow);
		return narrow;
	}
	memcpy(&wide, from, sizeof wide);
	return wide;
}

static const char *pointer(const char *from)
{
	return (const char *)(uintptr_t)word(from, sizeof(uintptr_t));
}

/* The driver itself has read or written what the pointers of such a call point to. */
static uint64_t value(const struct ct_argument *a, const char *data)
{
	const char *arguments = pointer(data + CALLBACK_ARGUMENTS);
	if (a->from == CT_FROM_CONTEXT)
		return word(data + CALLBACK_CONTEXT, 4);
	if (a->from == CT_FROM_ARGUMENT)
		return word(arguments + a->at, a->bytes);
	const char *to = pointer(arguments + a->at);
	return (uintptr_t)to < LOWEST ? 0 : word(to + a->offset, a->bytes);
}

static void send(const struct ct_function *f, const char *data, uint64_t start)
{
	int32_t result = (int32_t)word(pointer(data + CALLBACK_RETURN), 4);
	struct ct_call c = {.head = {CT_REC_CALL, sizeof c}, .tid = ct_tid(), .enter = start, .func = f->id, .ret = result};
	if ((result == 0 || result == OUT_OF_MEMORY) && (uintptr_t)pointer(data + CALLBACK_ARGUMENTS) >= LOWEST)
		for (c.nargs = 0; c.nargs < f->count; c.nargs++)
			c.args[c.nargs] = value(&f->args[c.nargs], data);
	ct_queue_record(&c, sizeof c, NULL, 0, &c.end);
}

static void see(uint32_t cbid, const void *data)
{
	char *start = (char *)(uintptr_t)pointer((const char *)data + CALLBACK_DATA);
	uint64_t now = ct_now(), began;
	memcpy(&began, start, sizeof began);
	if (word((const char *)data + CALLBACK_SITE, 4) == SITE_ENTER) {
		now = ct_switch_is_on() ? now : 0;
		memcpy(start, &now, sizeof now);
	} else if (began != 0 && began <= now) {
		send(&functions[numbers[cbid] - 1], data, began);
	}
}

static void called(void *user, uint32_t domain, uint32_t cbid, const void *data)
{
	struct ct_visit v;
	(void)user;
	if (domain != DOMAIN_DRIVER || cbid >= CT_CBID_MAX || !ct_here())
		return;
	if (ct_visit(&v) && numbers[cbid] == OF_GRAPH)
		ct_graph_seen();
	else if (v.in && numbers[cbid] != 0)
		see(cbid, data);
	ct_visit_end(&v);
}

/* The functions that the recorder wishes; a copy of them. False without memory for it. */
bool ct_memory_keep(const struct ct_function *list, unsigned count)
{
	if (count == 0 || !(functions = ct_alloc(count * sizeof *list)))
		return count == 0;
	memcpy(functions, list, count * sizeof *list);
	functions_kept = count;
	for (unsigned i = 0; i < count; i++) {
		functions[i].name[sizeof functions[i].name - 1] = 0;
		if (functions[i].count > sizeof functions[i].args / sizeof functions[i].args[0])
			functions[i].count = 0;
	}
	return true;
}

static void number(const struct ct_cupti *api)
{
	unsigned misses = 0;
	for (uint32_t cbid = 1; cbid < CT_CBID_MAX && misses < CT_CBID_GAP; cbid++) {
		const char *name = NULL;
		if (api->get_callback_name(DOMAIN_DRIVER, cbid, &name) != 0 || !name) {
			misses++;
			continue;
		}
		misses = 0;
		if (ct_switched_late() && ct_graph_call(DOMAIN_DRIVER, cbid))
			numbers[cbid] = OF_GRAPH;
		for (unsigned i = 0; i < functions_kept; i++)
			if (strcmp(name, functions[i].name) == 0)
				numbers[cbid] = (uint16_t)(i + 1);
	}
}

/* Gives the subscription back; false where there is none, or where another thread is in CUPTI with it for so long. */
static bool unsubscribe(void)
{
	if (!ct_lock_within(&subscribing, SUBSCRIBE_WAIT))
		return false;
	void *had = atomic_exchange(&subscriber, NULL);
	ct_link_switching(true);
	if (had)
		cupti->unsubscribe(had);
	ct_link_switching(false);
	ct_unlock(&subscribing);
	return had != NULL;
}

/* Under the lock. */
static ct_result take(void)
{
	void *fresh = NULL;
	ct_link_switching(true);
	ct_result r = cupti->subscribe(&fresh, called, NULL);
	if (r == 0)
		atomic_store(&subscriber, fresh);
	for (uint32_t cbid = 1; r == 0 && cbid < CT_CBID_MAX; cbid++) {
		ct_result on = numbers[cbid] != 0 ? cupti->enable_callback(1, fresh, DOMAIN_DRIVER, cbid) : 0;
		r = numbers[cbid] == OF_GRAPH ? 0 : on;
	}
	ct_link_switching(false);
	return r;
}

/* Without callbacks: nobody would tell of graphs while the records of work are off, as they are at first with --delay. */
static void miss_graphs(void)
{
	if (ct_switched_late() && !ct_switch_is_on())
		ct_graph_seen();
}

/* Called once, when records are on, and only where a profiler of the program's would be met. */
void ct_memory_start(const struct ct_cupti *api)
{
	if (functions_kept == 0) {
		miss_graphs();
		return;
	}
	cupti = api;
	number(api);
	ct_lock(&subscribing);
	ct_result r = take();
	ct_unlock(&subscribing);
	if (r == 0)
		return;
	unsubscribe();
	miss_graphs();
	ct_queue_note(1, "allocated memory is not recorded: CUPTI refuses its callbacks, perhaps to another tool in the program");
}

/* A profiler would find no subscription, and we could not tell. */
void ct_memory_refuse(void)
{
	miss_graphs();
	if (functions_kept > 0)
		ct_queue_note(1, "allocated memory is not recorded: the process may not change the table of symbols of libcupti");
}

/* What was allocated and freed since a profiler got the subscription is not known. */
static void count_missed(void)
{
	uint64_t since = atomic_exchange(&given, 0);
	if (since != 0)
		ct_queue_lost(CT_LOST_MEMORY, &(struct ct_loss){.count = 1, .from = since, .to = ct_now()});
}

static void give(bool for_good)
{
	atomic_store(&returned, 0);
	if (for_good)
		atomic_store(&over, true);
	if (unsubscribe()) {
		atomic_store(&given, ct_now());
		ct_queue_note(1, "allocated memory is not recorded while a profiler in the program has CUPTI's callbacks");
	}
}

/* A profiler in the program wants the subscription, or ends CUPTI: that is for good. */
void ct_memory_leave(bool for_good)
{
	struct ct_visit v;
	if (!ct_here())
		return;
	if (ct_visit(&v))
		give(for_good);
	ct_visit_end(&v);
}

/* A profiler has the subscription no more, or did not get it. */
void ct_memory_return(void)
{
	if (!ct_here() || !ct_come_in())
		return;
	if (atomic_load(&given) != 0)
		atomic_store(&returned, ct_now());
	ct_go_out();
}

/* On the control thread, now and then. What CUPTI refuses, another profiler has: the next one that ends is waited for. */
void ct_memory_poll(const struct ct_cupti *api)
{
	uint64_t since = atomic_load(&returned);
	(void)api;
	if (since == 0 || ct_now() < since + AGAIN_WAIT)
		return;
	ct_lock(&subscribing);
	bool wanted = !atomic_load(&over) && atomic_exchange(&returned, 0) != 0;
	bool taken = wanted && take() == 0;
	if (taken)
		count_missed(); /* before a profiler that waits for the lock gets the subscription anew */
	ct_unlock(&subscribing);
	if (wanted && !taken)
		unsubscribe();
}

/* The recording is over. */
void ct_memory_end(void)
{
	if (!ct_here())
		return;
	atomic_store(&over, true);
	unsubscribe();
	count_missed();
}

/* The process ends: nothing of CUPTI is touched any more. */
void ct_memory_exit(void)
{
	if (ct_here())
		count_missed();
}
