/*
 * The operators of PyTorch above a call, as a number: each different stack of operators has one, which API records
 * hold, and is sent once. PyTorch calls observers at the beginning and at the end of each operator, on its thread;
 * ours keeps the open ones of a thread. No header of PyTorch's is needed: the recorder has found the functions by
 * their exported names, and the structure that registers an observer is zeros behind what is known of it.
 *
 * An observer runs inside an operator: it takes no lock, but for room for spans, allocates once a thread, and calls nothing of PyTorch's but
 * what returns a name or a number. Registering it, and switching it on and off, takes a lock of PyTorch's: that is done
 * on the control thread and in calls that bound the range to record, never while the process forks, since the child
 * would find that lock taken for ever, and never once the program's end has destroyed PyTorch's list of observers. The
 * observer is never removed: PyTorch's threads may be in it.
 *
 * A backward operator runs on a thread without Python. It bears the number of the forward operator that made it,
 * and that one's thread: so each forward operator that may make one is remembered with its Python frames. Where
 * PyTorch keeps that number differs among its releases, and is not believed before forward operators have shown it
 * there: they hold what at::sequence_number::peek() says.
 */
#include "torch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base.h"
#include "link.h"
#include "load.h"
#include "python.h"
#include "queue.h"
#include "seen.h"

#define PROBES 32u     /* places in a table where an entry may be */
#define UNSENT 1024u    /* stacks that are sent for one */
#define DEPTH 64u      /* open operators of a thread; inner ones are left out */
#define THREADS 512u   /* that run operators */
#define FORWARDS 32768u /* operators that are remembered, the latest ones; a power of two */
#define NEAR (64u << 10) /* so far above us an operator's record may be on the stack, bytes */

#define ADD "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"

/* at::RecordScope */
enum { FUNCTION = 0, BACKWARD = 1, TORCHSCRIPT = 2, USER = 7, SCOPES = 16 };

/* at::RecordFunctionCallback, which is passed by value. */
struct callback {
	void *(*start)(void *result, const void *record);
	void (*end)(const void *record, void *context);
	double probability;
	bool scopes[SCOPES];
	uint8_t zeros[24]; /* whether inputs, outputs and IDs are needed, and what later releases add */
};

/* An operator that has begun on a thread. */
struct open {
	uintptr_t record;  /* the at::RecordFunction */
	uint32_t name;     /* its number; 0: it found no room */
	uint32_t scope;
	uint32_t forward;  /* of a backward operator: the stack of the forward one, 0 when not known */
	uint32_t python;   /* and its Python frames */
	uint32_t stack;    /* the number of the stack up to here, CT_TORCH_NONE while nobody has asked */
	bool near;         /* its record is on the thread's stack */
	uint64_t start;    /* when it began, 0 where that is not wanted */
};

struct thread {
	_Alignas(64) _Atomic uint32_t tid; /* of the owner, 0 without one */
	uint32_t depth;
	uint64_t id; /* PyTorch's number of the thread, 0 while not known */
	struct ct_chunk *_Atomic spans; /* of operators that have ended; NULL while the thread writes one */
	struct open open[DEPTH];
};

struct name {
	_Atomic uint64_t hash; /* 0 marks a free entry */
	uint32_t at;           /* in texts */
	_Atomic uint32_t size; /* bytes and 1; 0 until they are there */
};

struct stack {
	_Atomic uint64_t hash; /* likewise */
	uint32_t parent, name, forward, scope;
	atomic_bool complete;
	bool sent;
};

/* A forward operator, by its thread and its number. Threads that write one entry at a time leave a key that is nobody's. */
struct forward {
	_Atomic uint64_t key; /* its key ^ value */
	_Atomic uint64_t value; /* its stack and, in the upper half, its Python frames */
};

static struct thread *threads;
static struct name *names; /* number N is names[N], as of stacks */
static struct stack *stacks;
static struct forward *forwards;
static uint32_t name_mask, stack_mask;
static char *texts;
static size_t texts_size;
static _Atomic size_t texts_used = 1; /* 0 says that there is no room */
static pthread_key_t key;

static struct ct_chunk *_Atomic full; /* of spans, for whoever sends them */
static atomic_bool spans; /* are recorded */
static struct ct_torch torch;
static struct {
	const char *(*name)(const void *record);
	int64_t (*peek)(void);
	uint64_t (*thread)(void);
	void (*disable)(uint64_t), (*reenable)(uint64_t);
} call;
static uint64_t handles[3]; /* of the observers, one for each scope */
static struct ct_lock switching; /* no fork goes on while it is held */
static _Atomic uint32_t forking; /* the thread that forks with it */
static atomic_bool ready; /* operators can be recorded, and are of use */
static bool started, wanted, working, over;
static atomic_bool on;

/* Where in a record the number of a forward operator is, bytes: learnt from those that begin. */
#define SEQUENCE_FROM 64u
#define SEQUENCE_TO 256u /* in front of the end of a record: what follows may hold copies */
#define SEQUENCE_PLACES ((SEQUENCE_TO - SEQUENCE_FROM) / 8)
#define SEQUENCE_SURE 20u  /* different numbers */
#define SEQUENCE_DOUBT 4u  /* of another place */
#define SEQUENCE_LEAST 32  /* a smaller number may be anything */
/*
 * Where that one's thread is, behind the number: in release 1.13, and in 2.6 and 2.11. Those have the count of a map at the first
 * place, which is 0.
 */
static const uint32_t forward_threads[] = {48, 104};
static _Atomic uint32_t sequence_at; /* 0: not known; UINT32_MAX: it cannot be */
static _Atomic uint64_t shown[SEQUENCE_PLACES]; /* how many numbers, and above 16 bits the last one */

/* The calling thread's. */

static _Atomic uint32_t next_thread;
static struct thread nobody; /* stands for the entry of a thread that found none */

/* Hands a chunk of spans to whoever sends them. */
static void hand_over(struct ct_chunk *c)
{
	struct ct_chunk *first = atomic_load_explicit(&full, memory_order_relaxed);
	int before = errno;
	do
		c->next = first;
	while (!atomic_compare_exchange_weak(&full, &first, c));
	ct_wake_look();
	errno = before;
}

static void thread_ends(void *t)
{
	struct thread *mine = t;
	if (mine == &nobody)
		return;
	struct ct_chunk *c = ct_here() ? atomic_exchange(&mine->spans, NULL) : NULL;
	if (c)
		hand_over(c);
	atomic_store_explicit(&mine->tid, 0, memory_order_release);
}

/* Gives the thread an entry without an owner. To keep the value, glibc may allocate memory, as in seen.c. */
static struct thread *claim(void)
{
	uint32_t first = atomic_fetch_add(&next_thread, 1), tid = ct_tid();
	for (uint32_t i = 0; i < THREADS; i++) {
		struct thread *t = &threads[(first + i) % THREADS];
		uint32_t none = 0;
		if (atomic_load_explicit(&t->tid, memory_order_relaxed) != 0 ||
		    !atomic_compare_exchange_strong(&t->tid, &none, tid))
			continue;
		t->depth = 0;
		t->id = 0;
		if (pthread_setspecific(key, t) == 0)
			return t;
		atomic_store(&t->tid, 0);
		return &nobody;
	}
	pthread_setspecific(key, &nobody);
	return &nobody;
}

/* NULL when there are too many threads. */
static struct thread *thread(bool make)
{
	struct thread *t = pthread_getspecific(key);
	if (!t && make) {
		int before = errno;
		t = claim();
		errno = before;
	}
	return t == &nobody ? NULL : t;
}

/* Called once, before the timestamp callback, if CUPTI may tell who calls. */
void ct_torch_start(size_t memory)
{
	size_t fixed = THREADS * sizeof *threads + FORWARDS * sizeof *forwards, n = 256, m = 256;
	if (memory < fixed + (512u << 10) || pthread_key_create(&key, thread_ends) != 0)
		return;
	memory -= fixed;
	while (m < CT_OPERATOR_STACKS_MAX && m * 2 * sizeof *stacks <= memory / 2)
		m *= 2;
	while (n < CT_OPERATORS_MAX && n * 2 * sizeof *names <= memory / 8)
		n *= 2;
	stack_mask = (uint32_t)m - 1;
	name_mask = (uint32_t)n - 1;
	texts_size = memory / 4;
	threads = ct_alloc(THREADS * sizeof *threads);
	forwards = ct_alloc(FORWARDS * sizeof *forwards);
	stacks = ct_alloc(m * sizeof *stacks);
	names = ct_alloc(n * sizeof *names);
	texts = ct_alloc(texts_size);
	started = threads && forwards && stacks && names && texts;
	atomic_store(&ready, started);
}

/* The tables. Equal hashes stand for equal names and stacks, as in seen.c. */

/* Room for a text and its end; 0 when texts are full. */
static uint32_t take_text(size_t size)
{
	size_t at = atomic_load_explicit(&texts_used, memory_order_relaxed);
	do {
		if (size > texts_size - at)
			return 0;
	} while (!atomic_compare_exchange_weak(&texts_used, &at, at + size));
	return (uint32_t)at;
}

static uint64_t hash_text(const char *text, size_t size)
{
	uint64_t h = size, v;
	for (; size >= sizeof v; size -= sizeof v, text += sizeof v) {
		memcpy(&v, text, sizeof v);
		h = ct_mix(h, v);
	}
	v = 0;
	memcpy(&v, text, size);
	h = ct_mix(h, v);
	return h ? h : 1;
}

/* The number of a name, 0 when there is no room. */
static uint32_t name_number(const char *text)
{
	size_t size = strnlen(text, CT_OPERATOR_NAME_MAX);
	uint64_t hash = hash_text(text, size);
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t number = (uint32_t)((hash >> 32) + i) & name_mask;
		struct name *n = &names[number];
		uint64_t there = atomic_load_explicit(&n->hash, memory_order_relaxed);
		if (number == 0)
			continue;
		if (there == 0 && atomic_compare_exchange_strong(&n->hash, &there, hash)) {
			n->at = take_text(size + 1);
			if (n->at == 0)
				return 0;
			memcpy(texts + n->at, text, size);
			atomic_store_explicit(&n->size, (uint32_t)size + 1, memory_order_release);
			return number;
		}
		if (there == hash)
			return number;
	}
	return 0;
}

/* The number of a stack, CT_TORCH_LOST when there is no room. */
static uint32_t stack_number(uint32_t parent, const struct open *o)
{
	if (parent == CT_TORCH_LOST || o->name == 0)
		return CT_TORCH_LOST;
	/* Numbers are small: the parent is spread first, or stacks with the same parent ^ name would be one. */
	uint64_t hash = ct_mix(ct_mix(ct_mix(ct_mix(1, parent), o->name), o->forward), o->scope);
	hash = hash ? hash : 1;
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t number = (uint32_t)((hash >> 32) + i) & stack_mask;
		struct stack *s = &stacks[number];
		uint64_t there = atomic_load_explicit(&s->hash, memory_order_relaxed);
		if (number == 0)
			continue;
		if (there == 0 && atomic_compare_exchange_strong(&s->hash, &there, hash)) {
			s->parent = parent;
			s->name = o->name;
			s->forward = o->forward;
			s->scope = o->scope;
			atomic_store_explicit(&s->complete, true, memory_order_release);
			return number;
		}
		if (there == hash)
			return number;
	}
	return CT_TORCH_LOST;
}

/* The number of the open operators of a thread. */
static uint32_t number_open(struct thread *t)
{
	uint32_t first = t->depth, number;
	while (first > 0 && t->open[first - 1].stack == CT_TORCH_NONE)
		first--;
	number = first > 0 ? t->open[first - 1].stack : CT_TORCH_NONE;
	for (; first < t->depth; first++)
		number = t->open[first].stack = stack_number(number, &t->open[first]);
	return number;
}

/* Forward and backward. */

static uint64_t word(const void *record, uint32_t at)
{
	return ct_stack_word((uintptr_t)record + at);
}

/* Whether an operator's record is on the stack, above us. */
static bool is_near(const void *record)
{
	return (uintptr_t)record - (uintptr_t)__builtin_frame_address(0) < NEAR && (uintptr_t)record % 8 == 0;
}

/* Decides where numbers are, when one place has shown enough of them. */
static void decide(uint32_t place)
{
	for (uint32_t i = 0; i < SEQUENCE_PLACES; i++) {
		if (i == place || (atomic_load(&shown[i]) & UINT16_MAX) < SEQUENCE_DOUBT)
			continue;
		atomic_store(&sequence_at, UINT32_MAX);
		return;
	}
	atomic_store(&sequence_at, SEQUENCE_FROM + place * 8);
}

/* Learns from a forward operator. Threads may learn at the same time: a number counts twice, at worst. */
static void learn(const void *record, uint64_t next)
{
	for (uint32_t i = 0; i < SEQUENCE_PLACES; i++) {
		uint64_t was = atomic_load_explicit(&shown[i], memory_order_relaxed), count = (was & UINT16_MAX) + 1;
		if (word(record, SEQUENCE_FROM + i * 8) != next || was >> 16 == (next & (UINT64_MAX >> 16)))
			continue;
		atomic_store_explicit(&shown[i], next << 16 | count, memory_order_relaxed);
		if (count == SEQUENCE_SURE)
			decide(i);
	}
}

/* The place of a forward operator, and its key. */
static struct forward *forward_of(uint64_t id, uint64_t sequence, uint64_t *k)
{
	*k = ct_mix(ct_mix(1, id), sequence) | 1;
	return &forwards[(sequence ^ id << 9) & (FORWARDS - 1)];
}

/* A forward operator begins, which may make a backward one with the next number. */
static void remember(struct thread *t, uint64_t sequence)
{
	uint64_t k;
	struct ct_thread *seen = ct_seen_thread();
	struct forward *f = forward_of(t->id, sequence, &k);
	uint32_t python = CT_PYTHON_NONE, stack = number_open(t);
	if (seen && !seen->busy) {
		seen->busy = true;
		atomic_signal_fence(memory_order_seq_cst);
		python = ct_python_number(&seen->python, &seen->home, (uintptr_t)__builtin_frame_address(0));
		atomic_signal_fence(memory_order_seq_cst);
		seen->busy = false;
	}
	if (stack == CT_TORCH_LOST)
		stack = CT_TORCH_NONE;
	uint64_t value = (uint64_t)python << 32 | stack;
	atomic_store_explicit(&f->value, value, memory_order_relaxed);
	atomic_store_explicit(&f->key, k ^ value, memory_order_relaxed);
}

/* Looks the forward operator up that has made a backward one. */
static void recall(struct open *o, uint64_t id, uint64_t sequence)
{
	uint64_t k;
	struct forward *f = forward_of(id, sequence, &k);
	uint64_t value = atomic_load_explicit(&f->value, memory_order_relaxed);
	if ((atomic_load_explicit(&f->key, memory_order_relaxed) ^ value) != k)
		return;
	o->forward = (uint32_t)value;
	o->python = (uint32_t)(value >> 32);
}

/* The thread of the forward operator, by PyTorch's number, which is not 0. */
static uint64_t forward_thread(const void *record, uint32_t at)
{
	uint64_t id = word(record, at + forward_threads[0]);
	return id ? id : word(record, at + forward_threads[1]);
}

static void link_operators(struct thread *t, struct open *o, const void *record)
{
	uint32_t at = atomic_load_explicit(&sequence_at, memory_order_relaxed);
	if (at == UINT32_MAX)
		return;
	if (o->scope == BACKWARD) {
		if (at != 0 && (int64_t)word(record, at) >= 0)
			recall(o, forward_thread(record, at), word(record, at));
		return;
	}
	if (at != 0 && (int64_t)word(record, at) < 0)
		return;
	int64_t next = call.peek();
	if (at == 0 && next >= SEQUENCE_LEAST)
		learn(record, (uint64_t)next);
	if (t->id == 0 && call.thread)
		t->id = call.thread();
	if (at != 0 && (uint64_t)next == word(record, at))
		remember(t, (uint64_t)next);
}

/* What the observer does. */

/*
 * Open operators whose records were on the stack below a newer one's have ended, without a word. Others, of ranges that the
 * program opens, have records elsewhere.
 */
static void drop_ended(struct thread *t, uintptr_t record)
{
	while (t->depth > 0 && t->open[t->depth - 1].near && t->open[t->depth - 1].record <= record)
		t->depth--;
}

__attribute__((used)) static void begun(uint32_t scope, const void *record) __asm__("ct_torch_begun"); /* for assembly */

static void begun(uint32_t scope, const void *record)
{
	struct thread *t = ct_here() ? thread(true) : NULL;
	if (!t)
		return;
	bool near = scope != USER && is_near(record);
	if (near)
		drop_ended(t, (uintptr_t)record);
	if (t->depth == DEPTH)
		return;
	const char *name = call.name(record);
	struct open *o = &t->open[t->depth++];
	*o = (struct open){.record = (uintptr_t)record, .name = name ? name_number(name) : 0, .scope = scope, .near = near};
	if (atomic_load_explicit(&spans, memory_order_relaxed))
		o->start = ct_now();
	if (near)
		link_operators(t, o, record);
}

/*
 * A backward operator has ended inside autograd's evaluation of it, which bears no number itself: what is launched there from now
 * on, sums of gradients, is of the same forward operator.
 */
static void pass_on(struct open *around, const struct open *o)
{
	if (o->scope != BACKWARD || around->forward != 0 || (o->forward == 0 && o->python == CT_PYTHON_NONE))
		return;
	around->forward = o->forward;
	around->python = o->python;
	around->stack = CT_TORCH_NONE;
}

/* A chunk for spans, once in some thousand; NULL without, which is counted. */
static struct ct_chunk *span_chunk(uint64_t now)
{
	sigset_t before;
	int kept = errno;
	ct_sigmask_block(&before);
	struct ct_chunk *c = ct_queue_half_chunk(CT_LOST_SPAN, now);
	ct_sigmask_restore(&before);
	errno = kept;
	return c;
}

/* Adds the begin and the end of the innermost open operator to the thread's chunk, which others take now and then. */
static void add_span(struct thread *t)
{
	uint64_t now = ct_now();
	struct ct_chunk *c = atomic_exchange(&t->spans, NULL);
	struct ct_operator_span r = {.head = {CT_REC_OPERATOR_SPAN, sizeof r}, .tid = atomic_load_explicit(&t->tid, memory_order_relaxed),
		.operators = number_open(t), .start = t->open[t->depth - 1].start, .end = now};
	if (!c && !(c = span_chunk(now)))
		return;
	memcpy(c->data + c->used, &r, sizeof r);
	c->used += sizeof r;
	if (CT_CHUNK_DATA - c->used < sizeof r)
		hand_over(c);
	else
		atomic_store(&t->spans, c);
}

/* It may end elsewhere than it began, or be one that found no room. */
static void ended(const void *record, void *context)
{
	(void)context;
	struct thread *t = ct_here() ? thread(false) : NULL;
	for (uint32_t i = t ? t->depth : 0; i > 0; i--) {
		if (t->open[i - 1].record != (uintptr_t)record)
			continue;
		t->depth = i;
		if (t->open[i - 1].start != 0)
			add_span(t);
		t->depth = i - 1;
		if (i > 1)
			pass_on(&t->open[i - 2], &t->open[i - 1]);
		return;
	}
}

/*
 * The number of the calling thread's open operators. Where the thread has no Python frames, *python becomes those of the forward
 * operator.
 */
uint32_t ct_torch_number(uint32_t *python)
{
	struct thread *t = atomic_load_explicit(&on, memory_order_acquire) && ct_here() ? thread(false) : NULL;
	if (!t || t->depth == 0)
		return CT_TORCH_NONE;
	for (uint32_t i = t->depth; i > 0 && *python == CT_PYTHON_NONE; i--)
		*python = t->open[i - 1].python;
	return number_open(t);
}

static bool send_one(uint32_t number)
{
	struct stack *s = &stacks[number];
	struct name *n = &names[s->name];
	uint32_t size = atomic_load_explicit(&n->size, memory_order_acquire);
	if (size == 0)
		return false;
	size--;
	struct ct_operator r = {
		.id = number, .parent = s->parent, .forward = s->forward, .scope = (uint16_t)s->scope, .length = (uint16_t)size};
	r.head = (struct ct_head){CT_REC_OPERATOR_STACK, (uint16_t)(sizeof r + ((size + 7) & ~7u))};
	s->sent = ct_queue_definition(&r, sizeof r, texts + n->at, size);
	return s->sent;
}

static bool is_sent(uint32_t number)
{
	return number == 0 || stacks[number & stack_mask].sent;
}

/* Has a stack sent, and those that it names before; false when one is not complete yet, or there is no memory. */
bool ct_torch_send(uint32_t number)
{
	static uint32_t unsent[UNSENT];
	uint32_t count = 0;
	if (!is_sent(number))
		unsent[count++] = number;
	while (count > 0) {
		struct stack *s = &stacks[unsent[count - 1] & stack_mask];
		if (count == UNSENT || !atomic_load_explicit(&s->complete, memory_order_acquire))
			return false;
		if (!is_sent(s->parent))
			unsent[count++] = s->parent;
		else if (!is_sent(s->forward))
			unsent[count++] = s->forward;
		else if (!send_one(unsent[--count]))
			return false;
	}
	return true;
}

static void send_spans(struct ct_chunk *c)
{
	for (uint32_t at = 0; at < c->used; at += (uint32_t)sizeof(struct ct_operator_span)) {
		struct ct_operator_span r;
		memcpy(&r, c->data + at, sizeof r);
		if (r.operators != CT_TORCH_LOST && ct_torch_send(r.operators))
			continue;
		r.operators = 0;
		memcpy(c->data + at, &r, sizeof r);
		ct_queue_lost(CT_LOST_OPERATOR, &(struct ct_loss){.count = 1, .from = r.end, .to = r.end});
	}
	ct_queue_push(c);
}

/* Has full chunks of spans sent; with all, those of all threads. */
void ct_torch_send_spans(bool all)
{
	struct ct_chunk *next = atomic_exchange(&full, NULL), *c;
	while ((c = next)) {
		next = c->next;
		send_spans(c);
	}
	for (uint32_t i = 0; all && started && i < THREADS; i++)
		if ((c = atomic_exchange(&threads[i].spans, NULL)))
			send_spans(c);
}

/* Switching. */

/*
 * What PyTorch calls at an operator's beginning. It is to make an object of PyTorch's, in C++ a unique_ptr: the place for
 * the pointer comes as the first argument and is returned or, on arm64, comes in x8.
 */
#ifdef __aarch64__
#define STARTED(name, scope)                                                                                     \
	void *name(void *result, const void *record);                                                            \
	__asm__(".pushsection .text\n\t.p2align 2\n\t.hidden " #name "\n\t.type " #name ", %function\n" #name    \
		":\n\thint #34\n\tstr xzr, [x8]\n\tmov x1, x0\n\tmov w0, #" #scope "\n\tb ct_torch_begun\n" \
		"\t.size " #name ", . - " #name "\n\t.popsection");
#else
#define STARTED(name, scope)                                    \
	static void *name(void *result, const void *record)     \
	{                                                       \
		memset(result, 0, sizeof(void *));              \
		begun(scope, record);                           \
		return result;                                  \
	}
#endif
STARTED(ct_torch_function, 0)
STARTED(ct_torch_backward, 1)
STARTED(ct_torch_user, 7)

static void *address(uint64_t a)
{
	return (void *)(uintptr_t)a;
}

/* Copies the address of a function to a pointer to it. */
#define SET(pointer, a)                                     \
	do {                                                \
		void *f = address(a);                       \
		memcpy(&(pointer), &f, sizeof(pointer));    \
	} while (0)

static void register_observers(void)
{
	uint64_t (*add)(struct callback);
	struct callback c = {.start = ct_torch_function, .end = ended, .probability = 1};
	SET(add, torch.add);
	c.scopes[FUNCTION] = c.scopes[TORCHSCRIPT] = true;
	handles[0] = add(c);
	c.scopes[FUNCTION] = c.scopes[TORCHSCRIPT] = false;
	c.scopes[BACKWARD] = true;
	c.start = ct_torch_backward;
	handles[1] = add(c);
	c.scopes[BACKWARD] = false;
	c.scopes[USER] = true;
	c.start = ct_torch_user;
	handles[2] = add(c);
}

/* Whoever holds the lock may wait, inside PyTorch, for a lock of a thread that forks: a fork waits no longer than that. */
#define SWITCH_WAIT CT_SECOND

static void fork_begins(void)
{
	if (ct_here() && ct_lock_within(&switching, SWITCH_WAIT))
		atomic_store(&forking, ct_tid());
}

static void fork_ends(void)
{
	uint32_t tid = ct_here() ? ct_tid() : 0;
	if (tid != 0 && atomic_compare_exchange_strong(&forking, &tid, 0))
		ct_unlock(&switching);
}

/* The program ends. PyTorch's list of observers was made before this was registered, and is still there. */
static void exit_begins(void *unused)
{
	(void)unused;
	if (!ct_ours() || !ct_lock_within(&switching, SWITCH_WAIT))
		return;
	over = true;
	ct_unlock(&switching);
}

int __cxa_atexit(void (*f)(void *), void *arg, void *library);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);

/* Under the lock. An observer is registered switched on. */
static void apply(void)
{
	bool to = wanted && working, fresh = handles[0] == 0;
	if (torch.add == 0 || over || to == atomic_load(&on))
		return;
	if (fresh) {
		register_observers();
		over = __cxa_atexit(exit_begins, NULL, NULL) != 0;
	}
	for (int i = 0; !fresh && i < 3; i++)
		(to ? call.reenable : call.disable)(handles[i]);
	atomic_store(&on, to);
}

/* PyTorch's functions, and whether operators are wanted now. For the control thread. */
void ct_torch_use(const struct ct_torch *t)
{
	static CT_KEPT bool watched;
	static bool said;
	if (!started && !said)
		ct_queue_note(1, "PyTorch's operators are not recorded: CUPTI does not tell who calls, or --memory-limit is too low");
	said = true;
	if (!atomic_load(&ready) || t->add == 0 || t->disable == 0 || t->reenable == 0 || t->name == 0 || t->peek == 0)
		return;
	if (!watched && __register_atfork(fork_begins, fork_ends, NULL, NULL) != 0)
		return;
	watched = true;
	/* Not under the lock, for which forks wait: this waits while a library is loaded. The recorder looked a while ago. */
	if (torch.add == 0 && !ct_load_keep(address(t->add), ADD))
		return;
	ct_lock(&switching);
	if (torch.add == 0) {
		torch = *t;
		SET(call.name, t->name);
		SET(call.peek, t->peek);
		SET(call.thread, t->thread);
		SET(call.disable, t->disable);
		SET(call.reenable, t->reenable);
	}
	wanted = t->on != 0;
	atomic_store(&spans, (t->on & CT_TORCH_SPANS) != 0);
	apply();
	ct_unlock(&switching);
}

/* Whether the records of work are on. */
void ct_torch_work(bool is)
{
	sigset_t before;
	if (!atomic_load(&ready) || !ct_here())
		return;
	ct_sigmask_block(&before);
	ct_lock(&switching);
	working = is;
	apply();
	ct_unlock(&switching);
	ct_sigmask_restore(&before);
}

/* Threads that end come here no more; false when PyTorch has addresses of ours. */
bool ct_torch_forget(void)
{
	if (started && torch.add == 0)
		pthread_key_delete(key);
	return torch.add == 0;
}

/* Operators are no longer of use. */
void ct_torch_end(void)
{
	ct_torch_work(false);
	atomic_store(&ready, false);
	atomic_store(&spans, false);
}
