/*
 * NVTX in a process that waits for a recorder (meet.c). CUPTI is not there while it waits, and after cuptiFinalize nothing
 * of it may be called. So the program's table of NVTX gets functions of ours alone. They keep which ranges are open,
 * without a lock and a system call, and pass what happens on to a recording, if there is one. A recording first gets the
 * ranges that are open. The program gets what it would get without a tool; only handles and numbers of ranges are ours.
 *
 * The variables are those of the library that CUDA or NVTX has loaded, and live as long as the process; a recording may be
 * made by a copy (meet.c), whose functions are called.
 */
#include "standby.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base.h"
#include "calls.h"
#include "nccl.h"
#include "queue.h"
#include "wire.h"

#define RANGES 4096 /* open at one time: a power of two */
#define PROBES 64   /* places that are looked at for a new one */
#define THREADS 1024
#define LEVELS 64   /* ranges that a thread has pushed, one in the other */
#define TEXT 80	    /* bytes that are kept of a name */
#define WIDE 1024   /* bytes of a wide name; a longer one is cut */
#define BLOCK (64u << 10)
#define BLOCKS 64   /* of names that the program registers */

/* What a handle of a domain or of a registered string points to. */
struct text {
	size_t length;
	char bytes[]; /* and a zero */
};

/*
 * A range that is open. Its thread may change it while another one reads: if not, the state is the same behind that. So
 * what is in it is written behind the state and read before it.
 */
enum { FREE, CHANGING, OPEN, STATES = 4 };
struct range {
	_Atomic uint64_t state; /* one of these, and above how often the place was taken, which is the range's number */
	_Atomic uint64_t order; /* among those of its thread */
	const struct text *_Atomic domain;
	_Atomic uint32_t tid;
	_Atomic uint32_t recording; /* the one that has its beginning; 0: none */
	_Atomic uint64_t length;    /* of the text */
	_Atomic uint64_t text[TEXT / 8];
};

struct thread {
	uint32_t tid;
	uint32_t next;	/* where it looks for a place first, from its own first place on; the next thread here goes on so */
	uint64_t begun; /* ranges */
	uint32_t depth; /* pushed ranges; those beyond LEVELS are counted alone */
	struct {
		const void *domain;
		uint64_t number; /* 0: it found no place */
	} levels[LEVELS];
};

/* A name as the program gives it. */
struct name {
	const char *bytes;
	size_t length;
	bool cut;
	char room[WIDE];
};

static struct range *ranges;
static struct thread *threads;
static _Atomic uint32_t owners[THREADS]; /* their TIDs; 0: nobody's */
#define CLAIMING (1u << 31) /* of an owner: see claim */
static pthread_key_t key;
static _Atomic uint32_t used; /* places of ranges that were ever taken */
static _Atomic uint32_t recording;
static const struct ct_taker *_Atomic taker; /* NULL: nothing is recorded */

/* Whether a recording takes ranges, for the Python module: a call costs it more than all that is done here. */
__attribute__((visibility("default"))) extern _Atomic uint32_t cudatrace_range_taken;
_Atomic uint32_t cudatrace_range_taken;

static struct ct_lock lock;
static char *block;
static size_t block_left;
static unsigned blocks;

static void thread_ends(void *arg);

/* Called once, at NVTX's first use. False: NVTX is left without functions. */
bool ct_standby_start(void)
{
	size_t of_ranges = RANGES * sizeof *ranges, of_threads = THREADS * sizeof *threads;
	if (!ct_has_room(of_ranges + of_threads) || pthread_key_create(&key, thread_ends) != 0)
		return false;
	ranges = ct_alloc(of_ranges);
	threads = ct_alloc(of_threads);
	return ranges && threads;
}

/* A place for a range of a thread, which nobody else changes now; NULL without. */
static struct range *take_place(struct thread *t)
{
	uint32_t first = (uint32_t)(t - threads) * 16;
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t at = (first + t->next + i) & (RANGES - 1), most = atomic_load(&used);
		struct range *r = &ranges[at];
		uint64_t state = atomic_load_explicit(&r->state, memory_order_relaxed);
		if (state % STATES != FREE || !atomic_compare_exchange_strong(&r->state, &state, state + STATES + CHANGING))
			continue;
		while (at >= most && !atomic_compare_exchange_weak(&used, &most, at + 1))
			;
		t->next = at + 1 - first;
		return r;
	}
	t->next += PROBES; /* for its next range: others may be free */
	return NULL;
}

/* The number of a range: its place, and how often that was taken. */
static uint64_t number_of(const struct range *r, uint64_t state)
{
	return state / STATES * RANGES + (uint64_t)(r - ranges);
}

/* Its ID in records: the recorder has IDs from 2^31 on (record/steps.go). */
static uint32_t id_of(uint64_t number)
{
	return (uint32_t)number & INT32_MAX;
}

/* As many bytes of a text as are kept: no character is cut. */
static size_t cut(const char *text, size_t length)
{
	if (length <= TEXT)
		return length;
	for (length = TEXT; length > 0 && (text[length] & 0xc0) == 0x80;)
		length--;
	return length;
}

static const char *domain_name(const struct text *domain)
{
	return domain ? domain->bytes : NULL;
}

static void send(const struct ct_taker *to, uint32_t flags, uint32_t id, uint32_t tid, const struct text *domain, const struct name *n)
{
	to->mark(flags, id, tid, domain_name(domain), n->bytes, n->length);
	if (n->cut)
		to->lost(CT_LOST_CUT);
}

/* A recording lacks a range or a mark. */
static void left_out(void)
{
	const struct ct_taker *to = atomic_load(&taker);
	if (to)
		to->lost(CT_LOST_RANGE);
}

/* Who takes ranges, and the number of that recording. */
static const struct ct_taker *taker_of(uint32_t *now)
{
	const struct ct_taker *to;
	do {
		*now = atomic_load(&recording);
		to = atomic_load(&taker);
	} while (atomic_load(&recording) != *now);
	return to;
}

/*
 * A range begins; its number, 0 where it is not followed. A recording that begins meanwhile either is seen here, or waits
 * until the place has changed (settle).
 */
static uint64_t begin(struct thread *t, const struct text *domain, const struct name *n)
{
	struct range *r = t ? take_place(t) : NULL;
	if (!r) {
		left_out();
		return 0;
	}
	uint32_t now;
	const struct ct_taker *to = taker_of(&now);
	uint64_t state = atomic_load_explicit(&r->state, memory_order_relaxed), number = number_of(r, state);
	size_t kept = cut(n->bytes, n->length);
	atomic_store_explicit(&r->order, ++t->begun, memory_order_release);
	atomic_store_explicit(&r->domain, domain, memory_order_release);
	atomic_store_explicit(&r->tid, t->tid, memory_order_release);
	atomic_store_explicit(&r->recording, to ? now : 0, memory_order_release);
	atomic_store_explicit(&r->length, kept, memory_order_release);
	for (size_t i = 0; i * 8 < kept; i++) {
		uint64_t word = 0;
		memcpy(&word, n->bytes + i * 8, kept - i * 8 < 8 ? kept - i * 8 : 8);
		atomic_store_explicit(&r->text[i], word, memory_order_release);
	}
	if (to)
		send(to, CT_MARKER_START, id_of(number), t->tid, domain, n);
	atomic_store_explicit(&r->state, state - CHANGING + OPEN, memory_order_release);
	return number;
}

/* A range ends, on any thread. tid 0: it is forgotten. */
static void end(uint32_t tid, uint64_t number)
{
	struct range *r = &ranges[number % RANGES];
	uint64_t state = number / RANGES * STATES + OPEN;
	if (!atomic_compare_exchange_strong(&r->state, &state, state - OPEN + CHANGING))
		return; /* it has ended already, or never was */
	const struct ct_taker *to = atomic_load(&taker);
	const struct text *domain = atomic_load_explicit(&r->domain, memory_order_relaxed);
	if (to && tid != 0)
		to->mark(CT_MARKER_END, id_of(number), tid, domain_name(domain), NULL, 0);
	atomic_store_explicit(&r->state, state - OPEN + FREE, memory_order_release);
}

/* Ranges that a thread has pushed are forgotten, and its place is nobody's. */
static void forget(struct thread *t)
{
	for (uint32_t i = 0; i < t->depth && i < LEVELS; i++)
		if (t->levels[i].number != 0)
			end(0, t->levels[i].number);
	atomic_store(&owners[t - threads], 0);
}

static void thread_ends(void *arg)
{
	if (ct_here())
		forget(arg);
}

/*
 * What is kept for the calling thread; NULL when there are too many. glibc may allocate memory to keep the value, and the
 * program's malloc may use NVTX: a thread that has a place already does not come here again. A thread that used NVTX last
 * of all, behind thread_ends, has left its place with its TID.
 */
static struct thread *claim(void)
{
	int before = errno;
	uint32_t tid = ct_tid();
	struct thread *t = NULL;
	for (uint32_t i = 0; i < THREADS; i++) {
		uint32_t owner = atomic_load_explicit(&owners[i], memory_order_relaxed);
		if (owner == (tid | CLAIMING))
			return NULL;
		if (owner == tid)
			forget(&threads[i]);
	}
	for (uint32_t i = 0; !t && i < THREADS; i++) {
		uint32_t none = 0;
		if (atomic_compare_exchange_strong(&owners[i], &none, tid | CLAIMING))
			t = &threads[i];
	}
	if (t) {
		t->tid = tid;
		t->depth = 0;
		bool kept = pthread_setspecific(key, t) == 0;
		atomic_store(&owners[t - threads], kept ? tid : 0);
		if (!kept)
			t = NULL;
	}
	errno = before;
	return t;
}

static struct thread *this_thread(void)
{
	struct thread *t = pthread_getspecific(key);
	return t ? t : claim();
}

static void push(const struct text *domain, const struct name *n)
{
	struct thread *t = this_thread();
	uint32_t level = t ? t->depth++ : LEVELS;
	if (level >= LEVELS) {
		left_out();
		return;
	}
	t->levels[level].domain = domain;
	t->levels[level].number = begin(t, domain, n);
}

/* Ends the latest range of a domain. */
static void pop(const struct text *domain)
{
	struct thread *t = this_thread();
	if (!t || t->depth == 0)
		return;
	if (t->depth > LEVELS) {
		t->depth--;
		return;
	}
	uint32_t level = t->depth;
	while (level > 0 && t->levels[level - 1].domain != domain)
		level--;
	if (level == 0)
		return;
	uint64_t number = t->levels[level - 1].number;
	t->depth--;
	for (; level <= t->depth; level++)
		t->levels[level - 1] = t->levels[level];
	if (number != 0) {
		end(t->tid, number);
		t->next = (uint32_t)(number % RANGES) - (uint32_t)(t - threads) * 16;
	}
}

/* In a forked child: its other threads are not there, and it may be recorded by itself. */
void ct_standby_forked(void)
{
	if (!threads)
		return;
	for (uint32_t i = 0; i < atomic_load(&used); i++)
		atomic_store(&ranges[i].state, atomic_load(&ranges[i].state) / STATES * STATES); /* the child may have numbers of these */
	for (uint32_t i = 0; i < THREADS; i++)
		atomic_store(&owners[i], 0);
	pthread_setspecific(key, NULL);
	lock = (struct ct_lock){0};
	atomic_store(&taker, NULL);
}

/* A range as it is in its place. False if it is not open. */
static bool read_range(const struct range *r, uint64_t *number, uint64_t *words, struct range *copy)
{
	uint64_t state = atomic_load(&r->state);
	if (state % STATES != OPEN)
		return false;
	copy->order = atomic_load_explicit(&r->order, memory_order_acquire);
	copy->domain = atomic_load_explicit(&r->domain, memory_order_acquire);
	copy->tid = atomic_load_explicit(&r->tid, memory_order_acquire);
	copy->recording = atomic_load_explicit(&r->recording, memory_order_acquire);
	copy->length = atomic_load_explicit(&r->length, memory_order_acquire);
	for (size_t i = 0; i < TEXT / 8; i++)
		words[i] = atomic_load_explicit(&r->text[i], memory_order_acquire);
	*number = number_of(r, state);
	return atomic_load_explicit(&r->state, memory_order_relaxed) == state;
}

/* Waits for threads that are in a place, and do not see the latest change of taker. False if one has not come out in time. */
static bool settle(void)
{
	uint32_t count = atomic_load(&used), naps = 0;
	for (uint32_t i = 0; i < count && naps < 100; i++)
		for (; atomic_load(&ranges[i].state) % STATES == CHANGING && naps < 100; naps++)
			ct_pause(CT_MS / 10);
	return naps < 100;
}

struct place {
	uint64_t order, number; /* of the range in it */
};

/* The outermost ranges of each thread come first (Shell's sort). */
static void sort(struct place *p, uint32_t count)
{
	for (uint32_t gap = count / 2; gap > 0; gap /= 2)
		for (uint32_t i = gap; i < count; i++) {
			struct place moved = p[i];
			uint32_t to = i;
			for (; to >= gap && p[to - gap].order > moved.order; to -= gap)
				p[to] = p[to - gap];
			p[to] = moved;
		}
}

/* A recording gets the ranges that were open before it, those of a thread from the outermost one on. */
static void announce(const struct ct_taker *to, uint32_t now)
{
	struct place *list = ct_alloc(RANGES * sizeof *list);
	if (!settle() || !list)
		to->lost(CT_LOST_RANGE);
	uint64_t number, words[TEXT / 8];
	uint32_t places = list ? atomic_load(&used) : 0, count = 0;
	for (uint32_t i = 0; i < places; i++) {
		struct range r = {0};
		if (read_range(&ranges[i], &number, words, &r) && r.recording != now)
			list[count++] = (struct place){r.order, number};
	}
	sort(list, count);
	for (uint32_t i = 0; i < count; i++) {
		struct range r = {0};
		if (read_range(&ranges[list[i].number % RANGES], &number, words, &r) && number == list[i].number)
			to->mark(CT_MARKER_START | CT_MARKER_BEFORE, id_of(number), r.tid, domain_name(r.domain),
				 (const char *)words, r.length < TEXT ? r.length : TEXT);
	}
	if (list)
		ct_free(list, RANGES * sizeof *list);
}

/* A recording takes what happens from now on, NULL: none does. One thread of ours at a time calls it. */
void ct_standby_give(const struct ct_taker *to)
{
	ct_nccl_pass(to ? to->nccl : NULL);
	atomic_store(&taker, NULL);
	atomic_store(&cudatrace_range_taken, to != NULL);
	if (!to && ranges && threads)
		settle();
	if (!to)
		return;
	uint32_t now = atomic_load(&recording) + 1;
	atomic_store(&recording, now);
	atomic_store(&taker, to);
	if (ranges && threads)
		announce(to, now);
}

static void record_mark(uint32_t flags, uint32_t id, uint32_t tid, const char *domain, const char *text, size_t length)
{
	struct ct_marker m = {
		.head = {CT_REC_MARKER, 0}, .tid = tid, .flags = flags, .id = id, .domain = ct_name_number(domain),
		.length = (uint32_t)(length < CT_NAME_MAX ? length : CT_NAME_MAX),
	};
	m.head.size = (uint16_t)(sizeof m + ((m.length + 7) & ~7u));
	ct_queue_record(&m, sizeof m, text, m.length, &m.time);
}

/* A thread of the program may come when the recording has ended. */
static void take_mark(uint32_t flags, uint32_t id, uint32_t tid, const char *domain, const char *text, size_t length)
{
	struct ct_visit v;
	if (ct_visit(&v))
		record_mark(flags, id, tid, domain, text, length);
	ct_visit_end(&v);
}

static void take_loss(enum ct_lost_cause cause)
{
	uint64_t now = ct_now();
	struct ct_visit v;
	if (ct_visit(&v))
		ct_queue_lost(cause, &(struct ct_loss){.count = 1, .from = now, .to = now});
	ct_visit_end(&v);
}

const struct ct_taker ct_standby_taker = {take_mark, take_loss, ct_nccl_send};

static void narrow(struct name *n, const char *text)
{
	n->bytes = text;
	n->length = text ? strnlen(text, CT_NAME_MAX) : 0;
	n->cut = n->length == CT_NAME_MAX && text[CT_NAME_MAX];
}

/* In UTF-8. */
static void wide(struct name *n, const wchar_t *text)
{
	n->bytes = n->room;
	n->length = 0;
	for (; text && *text && n->length + 4 <= WIDE; text++) {
		uint32_t c = (uint32_t)*text & 0x1fffff;
		unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
		n->room[n->length++] = (char)(more == 0 ? c : (0xff00u >> (more + 1) & 0xff) | c >> 6 * more);
		while (more-- > 0)
			n->room[n->length++] = (char)(0x80 | (c >> 6 * more & 0x3f));
	}
	n->cut = text && *text;
}

static void message(struct name *n, const void *attributes)
{
	uint16_t size = 0;
	int32_t type = 0;
	const void *at = NULL;
	narrow(n, NULL);
	if (attributes)
		memcpy(&size, (const char *)attributes + NVTX_SIZE_OF, sizeof size);
	if (size < NVTX_ATTRIBUTES_MIN)
		return;
	memcpy(&type, (const char *)attributes + NVTX_MESSAGE_TYPE, sizeof type);
	memcpy(&at, (const char *)attributes + NVTX_MESSAGE, sizeof at);
	if (type == NVTX_ASCII)
		narrow(n, at);
	else if (type == NVTX_UNICODE)
		wide(n, at);
	else if (type == NVTX_REGISTERED && at)
		n->bytes = ((const struct text *)at)->bytes, n->length = ((const struct text *)at)->length;
}

/* Memory for a name that stays; NULL without. Under the lock. */
static struct text *room_for(size_t size)
{
	if (size > block_left) {
		char *fresh = size <= BLOCK && blocks < BLOCKS ? ct_alloc(BLOCK) : NULL;
		if (!fresh)
			return NULL;
		blocks++;
		block = fresh;
		block_left = BLOCK;
	}
	struct text *t = (struct text *)(void *)block;
	block += size;
	block_left -= size;
	return t;
}

/* The handle of a name. */
static void *keep(const struct name *n)
{
	sigset_t before;
	if (!ct_here() || !n->bytes)
		return NULL;
	ct_sigmask_block(&before);
	ct_lock(&lock);
	struct text *t = room_for((sizeof *t + n->length + 8) & ~(size_t)7);
	ct_unlock(&lock);
	ct_sigmask_restore(&before);
	if (t) {
		memcpy(t->bytes, n->bytes, n->length); /* and zeros follow */
		t->length = n->length;
	}
	return t;
}

static void mark(const struct text *domain, const struct name *n)
{
	const struct ct_taker *to = atomic_load(&taker);
	if (!to || !ct_here())
		return;
	struct thread *t = this_thread();
	if (t)
		send(to, CT_MARKER_INSTANT, 0, t->tid, domain, n);
	else
		left_out();
}

static void pushed(const struct text *domain, const struct name *n)
{
	if (ct_here())
		push(domain, n);
}

static uint64_t started(const struct text *domain, const struct name *n)
{
	return ct_here() ? begin(this_thread(), domain, n) : 0;
}

static int popped(const struct text *domain)
{
	if (ct_here())
		pop(domain);
	return NVTX_NO_LEVEL;
}

static void stopped(uint64_t number)
{
	if (number == 0 || !ct_here())
		return;
	struct thread *t = this_thread();
	end(t ? t->tid : ct_tid(), number);
}

/* The functions in the program's table: what each takes a name from, and what it does. */
#define NAMED(function, params, take, from, result, act) \
	static result on_##function params \
	{ \
		struct name n; \
		take(&n, from); \
		act; \
	}
NAMED(MarkEx, (const void *a), message, a, void, mark(NULL, &n))
NAMED(MarkA, (const char *a), narrow, a, void, mark(NULL, &n))
NAMED(MarkW, (const wchar_t *a), wide, a, void, mark(NULL, &n))
NAMED(RangeStartEx, (const void *a), message, a, uint64_t, return started(NULL, &n))
NAMED(RangeStartA, (const char *a), narrow, a, uint64_t, return started(NULL, &n))
NAMED(RangeStartW, (const wchar_t *a), wide, a, uint64_t, return started(NULL, &n))
NAMED(RangePushEx, (const void *a), message, a, int, pushed(NULL, &n); return NVTX_NO_LEVEL)
NAMED(RangePushA, (const char *a), narrow, a, int, pushed(NULL, &n); return NVTX_NO_LEVEL)
NAMED(RangePushW, (const wchar_t *a), wide, a, int, pushed(NULL, &n); return NVTX_NO_LEVEL)
NAMED(DomainMarkEx, (const void *d, const void *a), message, a, void, mark(d, &n))
NAMED(DomainRangeStartEx, (const void *d, const void *a), message, a, uint64_t, return started(d, &n))
NAMED(DomainRangePushEx, (const void *d, const void *a), message, a, int, pushed(d, &n); return NVTX_NO_LEVEL)
NAMED(DomainRegisterStringA, (const void *d, const char *a), narrow, a, void *, (void)d; return keep(&n))
NAMED(DomainRegisterStringW, (const void *d, const wchar_t *a), wide, a, void *, (void)d; return keep(&n))
NAMED(DomainCreateA, (const char *a), narrow, a, void *, return keep(&n))
NAMED(DomainCreateW, (const wchar_t *a), wide, a, void *, return keep(&n))

static void on_RangeEnd(uint64_t number)
{
	stopped(number);
}

static void on_DomainRangeEnd(const void *d, uint64_t number)
{
	(void)d;
	stopped(number);
}

static int on_RangePop(void)
{
	return popped(NULL);
}

static int on_DomainRangePop(const void *d)
{
	return popped(d);
}

const struct ct_nvtx_hook ct_standby_hooks[CT_STANDBY_FUNCTIONS] = {
#define OURS(module, number, function) {NVTX_##module, number, (nvtx_fn)on_##function, NULL}
	OURS(CORE, 1, MarkEx), OURS(CORE, 2, MarkA), OURS(CORE, 3, MarkW), OURS(CORE, 4, RangeStartEx),
	OURS(CORE, 5, RangeStartA), OURS(CORE, 6, RangeStartW), OURS(CORE, 7, RangeEnd), OURS(CORE, 8, RangePushEx),
	OURS(CORE, 9, RangePushA), OURS(CORE, 10, RangePushW), OURS(CORE, 11, RangePop), OURS(CORE2, 1, DomainMarkEx),
	OURS(CORE2, 2, DomainRangeStartEx), OURS(CORE2, 3, DomainRangeEnd), OURS(CORE2, 4, DomainRangePushEx),
	OURS(CORE2, 5, DomainRangePop), OURS(CORE2, 10, DomainRegisterStringA), OURS(CORE2, 11, DomainRegisterStringW),
	OURS(CORE2, 12, DomainCreateA), OURS(CORE2, 13, DomainCreateW),
#undef OURS
};
