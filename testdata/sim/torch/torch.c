/*
 * What of libtorch_cpu tells observers of operators, under PyTorch's exported names and with its binary interface: the record of an
 * operator lies on the stack, with its name, the number of a forward operator and that one's thread where release 2.11 has
 * them. Operators run functions of the caller's. Those that make a node are remembered, and sim_torch_backward runs
 * their backward operators, the last one first, on a thread of its own.
 *
 * SIM_TORCH_SEQUENCE moves the number to another offset, or leaves it out (0); the thread's stays 104 bytes behind it, or
 * so many as SIM_TORCH_THREAD says: 48 in release 1.13.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { FUNCTION, BACKWARD, USER = 7, SCOPES = 10 };
#define OBSERVERS 16
#define NODES 4096
#define RECORD 340

/* at::RecordFunctionCallback of that release. */
struct observer {
	/* The result is an object: larger than two words, it is returned the way in which C++ returns a unique_ptr. */
	struct result {
		void *context, *more[2];
	} (*start)(const void *record);
	void (*end)(const void *record, void *context);
	double probability;
	bool scopes[SCOPES], needs_inputs, needs_outputs, needs_ids;
};

struct record {
	char name[64];
	unsigned char bytes[RECORD];
};

static struct {
	struct observer is;
	_Atomic bool on;
} observers[OBSERVERS];
static _Atomic unsigned observer_count, version; /* the latter counts changes */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER; /* each thread takes it after a change */
static _Atomic bool destroyed; /* the list of observers, as a static object at the program's end */
static _Thread_local uint64_t next_node, thread_id;
static _Atomic uint64_t threads;

static struct node {
	char name[64];
	uint64_t number, thread;
} nodes[NODES];
static _Atomic unsigned node_count; /* those beyond NODES are not kept */

static void destroy(void)
{
	destroyed = true;
}

/* The list is made when it is first needed. */
static void change(unsigned i, bool on)
{
	static bool made;
	pthread_mutex_lock(&changing);
	if (destroyed || (!made && atexit(destroy)))
		abort();
	made = true;
	observers[i].on = on;
	version++;
	pthread_mutex_unlock(&changing);
}

static void look_again(void)
{
	static _Thread_local unsigned known;
	if (known == version)
		return;
	pthread_mutex_lock(&changing);
	known = version;
	pthread_mutex_unlock(&changing);
}

API uint64_t sim_torch_add(struct observer o) __asm__("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
API uint64_t sim_torch_add(struct observer o)
{
	unsigned i = observer_count++;
	if (i >= OBSERVERS || o.probability != 1 || o.needs_inputs || o.needs_outputs || o.needs_ids)
		abort();
	observers[i].is = o;
	change(i, true);
	return i + 1;
}

API void sim_torch_disable(uint64_t handle) __asm__("_ZN2at15disableCallbackEm");
API void sim_torch_disable(uint64_t handle)
{
	change((unsigned)handle - 1, false);
}

API void sim_torch_reenable(uint64_t handle) __asm__("_ZN2at16reenableCallbackEm");
API void sim_torch_reenable(uint64_t handle)
{
	change((unsigned)handle - 1, true);
}

API const char *sim_torch_name(const void *record) __asm__("_ZNK2at14RecordFunction4nameEv");
API const char *sim_torch_name(const void *record)
{
	return record;
}

API uint64_t sim_torch_thread(void) __asm__("_ZN2at14RecordFunction15currentThreadIdEv");
API uint64_t sim_torch_thread(void)
{
	if (thread_id == 0)
		thread_id = ++threads;
	return thread_id;
}

API int64_t sim_torch_peek(void) __asm__("_ZN2at15sequence_number4peekEv");
API int64_t sim_torch_peek(void)
{
	return (int64_t)next_node;
}

/* Its presence tells releases whose observers are plain functions from older ones. */
API unsigned sim_torch_steps(void) __asm__("_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE");
API unsigned sim_torch_steps(void)
{
	return observer_count;
}

/* How many observers are on. */
API unsigned sim_torch_observed(void);
API unsigned sim_torch_observed(void)
{
	unsigned on = 0;
	for (unsigned i = 0; i < observer_count; i++)
		on += observers[i].on;
	return on;
}

static size_t from_environment(const char *name, size_t otherwise)
{
	const char *said = getenv(name);
	return said ? strtoul(said, NULL, 10) : otherwise;
}

static void prepare(struct record *r, const char *name, int64_t number, uint64_t forward_thread)
{
	size_t at = from_environment("SIM_TORCH_SEQUENCE", 200), thread_at = from_environment("SIM_TORCH_THREAD", 104);
	memset(r, 0, sizeof *r);
	snprintf(r->name, sizeof r->name, "%s", name);
	if (at == 0)
		return;
	at -= offsetof(struct record, bytes);
	memcpy(r->bytes + at, &number, sizeof number);
	memcpy(r->bytes + at + thread_at, &forward_thread, sizeof forward_thread);
}

/* Runs a function as an operator. Observers that are switched meanwhile see both ends or none. */
static void operate(unsigned scope, struct record *r, void (*run)(void *), void *arg)
{
	bool told[OBSERVERS] = {false};
	look_again();
	unsigned count = observer_count;
	struct result made;
	for (unsigned i = 0; i < count; i++) {
		if (!observers[i].on || !observers[i].is.scopes[scope])
			continue;
		told[i] = true;
		made.context = r;
		made = observers[i].is.start(r);
		if (made.context)
			abort();
	}
	if (run)
		run(arg);
	for (unsigned i = count; i > 0; i--)
		if (told[i - 1])
			observers[i - 1].is.end(r, NULL);
}

/* An operator; one that makes a node leads to a backward operator. */
API void sim_torch_operate(const char *name, bool makes_node, void (*run)(void *), void *arg);
API void sim_torch_operate(const char *name, bool makes_node, void (*run)(void *), void *arg)
{
	struct record r;
	prepare(&r, name, makes_node ? (int64_t)next_node : -1, 0);
	operate(FUNCTION, &r, run, arg);
	if (!makes_node)
		return;
	unsigned i = node_count++;
	uint64_t number = next_node++;
	if (i >= NODES)
		return;
	snprintf(nodes[i].name, sizeof nodes[i].name, "%.15sBackward0", name);
	nodes[i].number = number;
	nodes[i].thread = sim_torch_thread();
}

/* A range of the program's, whose record is not on the stack. */
API void sim_torch_range(const char *name, void (*run)(void *), void *arg);
API void sim_torch_range(const char *name, void (*run)(void *), void *arg)
{
	struct record *r = malloc(sizeof *r);
	if (!r)
		abort();
	prepare(r, name, -1, 0);
	operate(USER, r, run, arg);
	free(r);
}

struct body {
	void (*run)(void *);
	void *arg;
};

static void inner(void *arg)
{
	const struct body *b = arg;
	sim_torch_operate("aten::mm", false, b->run, b->arg);
}

struct evaluation {
	struct node *node;
	const struct body *body;
};

static void evaluate(void *arg)
{
	struct evaluation *e = arg;
	struct record r;
	prepare(&r, e->node->name, (int64_t)e->node->number, e->node->thread);
	operate(BACKWARD, &r, inner, (void *)e->body);
	sim_torch_operate("aten::sum", false, e->body->run, e->body->arg);
}

static void *run_backward(void *arg)
{
	while (node_count > 0) {
		unsigned i = --node_count;
		struct evaluation e = {&nodes[i < NODES ? i : NODES - 1], arg};
		char name[64];
		struct record r;
		snprintf(name, sizeof name, "autograd::engine::evaluate_function: %.25s", e.node->name);
		prepare(&r, name, -1, 0);
		operate(FUNCTION, &r, evaluate, &e);
	}
	return NULL;
}

/* Each backward operator runs a function inside an operator of its own, and autograd another time behind it. */
API void sim_torch_backward(void (*run)(void *), void *arg);
API void sim_torch_backward(void (*run)(void *), void *arg)
{
	pthread_t t;
	struct body b = {run, arg};
	if (pthread_create(&t, NULL, run_backward, &b) != 0)
		abort();
	pthread_join(t, NULL);
}

/* For sim_torch_backward: fills memory with a function of the runtime's. */
struct fill {
	int (*set)(void *, int, size_t);
	void *memory;
};

API void sim_torch_fill(void *arg);
API void sim_torch_fill(void *arg)
{
	const struct fill *f = arg;
	f->set(f->memory, 0, 64);
}
