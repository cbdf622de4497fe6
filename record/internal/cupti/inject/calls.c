/*
 * Calls and their names: which calls CUPTI is to make records of, which of them create GPU work, and the numbers
 * that stand for names. enable.c chooses the calls once; translate.c looks each API record up, inside CUPTI's
 * callbacks. CUPTI is asked for names alone: nothing may be switched here.
 */
#include "calls.h"

#include <stdatomic.h>
#include <string.h>

#include "base.h"
#include "queue.h"

/*
 * The table of names: each is sent once and has a number, which records hold in its
 * place. CUPTI's pointers must not stand for names, since an unloaded module's memory is used again: contents are
 * compared.
 */
#define BLOCK (64u << 10)

struct entry {
	uint64_t hash;
	const char *text;
	uint32_t length;
	uint32_t id; /* 0 marks a free entry */
};

static struct ct_lock lock;
static struct entry *table;
static uint32_t slots; /* a power of two */
static uint32_t last_id;
static char *block;
static size_t block_left, copies_left; /* bytes */

/* The table takes an eighth of memory, copies of the names the rest. */
bool ct_names_start(size_t memory)
{
	slots = 64;
	while (slots * 2 * sizeof *table <= memory / 8 && slots < CT_NAMES_MAX)
		slots *= 2;
	table = ct_alloc(slots * sizeof *table);
	copies_left = memory - memory / 8;
	return table != NULL;
}

static uint64_t hash(const char *text, uint32_t length)
{
	uint64_t h = length, v;
	for (; length >= 8; length -= 8, text += 8) {
		memcpy(&v, text, 8);
		h = ct_mix(h, v);
	}
	v = 0;
	memcpy(&v, text, length);
	return ct_mix(h, v);
}

/* The entry of this content, or the free one where it belongs. */
static struct entry *find(const char *text, uint32_t length, uint64_t h)
{
	for (uint32_t i = (uint32_t)h & (slots - 1);; i = (i + 1) & (slots - 1)) {
		struct entry *e = &table[i];
		if (e->id == 0)
			return e;
		if (e->hash == h && e->length == length && memcmp(e->text, text, length) == 0)
			return e;
	}
}

/* Keeps a copy of text; NULL when there is no more room for names. */
static const char *keep(const char *text, uint32_t length)
{
	if (length > block_left) {
		if (copies_left < BLOCK)
			return NULL;
		char *fresh = ct_alloc(BLOCK);
		if (!fresh)
			return NULL;
		copies_left -= BLOCK;
		block = fresh;
		block_left = BLOCK;
	}
	char *copy = block;
	memcpy(copy, text, length);
	block += length;
	block_left -= length;
	return copy;
}

static bool add(struct entry *e, const char *text, uint32_t length, uint64_t h)
{
	if (last_id >= slots / 4 * 3)
		return false;
	struct ct_string s = {.id = last_id + 1, .length = length};
	s.head = (struct ct_head){CT_REC_STRING, (uint16_t)(sizeof s + ((length + 7) & ~7u))};
	const char *copy = keep(text, length);
	if (!copy || !ct_queue_definition(&s, sizeof s, text, length))
		return false;
	e->hash = h;
	e->text = copy;
	e->length = length;
	e->id = ++last_id;
	return true;
}

/* The number of a name; 0 for no name, and for one that found no room. */
uint32_t ct_name_number(const char *text)
{
	if (!text)
		return 0;
	uint32_t length = (uint32_t)strnlen(text, CT_NAME_MAX);
	uint64_t h = hash(text, length);
	ct_lock(&lock);
	struct entry *e = find(text, length, h);
	if (e->id == 0 && add(e, text, length, h) && length == CT_NAME_MAX && text[length]) {
		uint64_t now = ct_now();
		ct_queue_lost(CT_LOST_CUT, &(struct ct_loss){.count = 1, .from = now, .to = now});
	}
	uint32_t id = e->id;
	ct_unlock(&lock);
	return id;
}

/*
 * Which calls are to have API records. Unless the
 * recorder names others, API records are made of calls that create GPU work: a program
 * makes ten times as many other calls, which nobody correlates.
 */
static const char *const with_work[] = {
	"cudaLaunch",      "cudaMemcpy",       "cudaMemset",
	"cudaGraphLaunch", "cudaMemPrefetch",  "cudaMemDiscardAndPrefetch",
	"cuLaunch",        "cuMemcpy",         "cuMemset",
	"cuGraphLaunch",   "cuMemPrefetch",    "cuMemDiscardAndPrefetch",
};

/* Host functions run on the CPU and have no record of GPU work. */
static const char *const without_work[] = {"cudaLaunchHostFunc", "cuLaunchHostFunc"};

static const char *const with_graph[] = {
	"cudaGraphLaunch", "cudaGraphUpload", "cudaGraphInstantiate", "cuGraphLaunch", "cuGraphUpload", "cuGraphInstantiate",
};

static bool starts_with(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(name, list[i], strlen(list[i])) == 0)
			return true;
	return false;
}

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The length of a name without a last _vN whose number has so many digits or more; the whole length without one. */
static size_t without_version(const char *name, size_t n, size_t least)
{
	size_t digits = 0;
	while (digits < n && digit(name[n - 1 - digits]))
		digits++;
	bool is = digits >= least && n > digits + 2 && name[n - digits - 1] == 'v' && name[n - digits - 2] == '_';
	return is ? n - digits - 2 : n;
}

/* The same without a last _vN, _ptds or _ptsz. */
static size_t without_suffix(const char *name, size_t n)
{
	size_t stem = without_version(name, n, 1);
	if (stem < n)
		return stem;
	if (n > 5 && (memcmp(name + n - 5, "_ptds", 5) == 0 || memcmp(name + n - 5, "_ptsz", 5) == 0))
		return n - 5;
	return n;
}

/* The length of a name without its suffixes: that of cuMemcpyHtoD for cuMemcpyHtoD_v2_ptds. */
static size_t call_base(const char *name)
{
	size_t n = strlen(name), before;
	do {
		before = n;
		n = without_suffix(name, n);
	} while (n < before);
	return n;
}

static bool listed(const char *name, const struct ct_calls *calls)
{
	const unsigned char *p = calls->list;
	uint32_t left = calls->size, length;
	size_t base = call_base(name);
	for (uint32_t i = 0; i < calls->count && left >= sizeof length; i++) {
		memcpy(&length, p, sizeof length);
		p += sizeof length;
		left -= (uint32_t)sizeof length;
		if (length > left)
			return false;
		if (length == base && memcmp(p, name, base) == 0)
			return true;
		p += length;
		left -= length;
	}
	return false;
}

static bool call_creates_work(const char *name)
{
	return starts_with(name, with_work, sizeof with_work / sizeof with_work[0]) &&
	       !starts_with(name, without_work, sizeof without_work / sizeof without_work[0]);
}

/*
 * Copies a callback's name without the release that CUPTI puts behind runtime
 * names: cudaLaunchKernel_v7000 becomes cudaLaunchKernel. A driver's _v2 is part
 * of the function's name and stays.
 */
static void call_name(const char *name, char *out, size_t size)
{
	size_t n = without_version(name, strlen(name), 4);
	if (n >= size)
		n = size - 1;
	memcpy(out, name, n);
	out[n] = 0;
}

/* The wanted calls, with their names, and the time up to which calls count. */

static _Atomic uint32_t names[CT_DOMAINS][CT_CBID_MAX]; /* number of the call's name, 0 for calls not wanted */
static bool creates_work[CT_DOMAINS][CT_CBID_MAX];      /* of wanted calls; none does when work has no records */
static CT_KEPT uint64_t graph_calls[CT_DOMAINS][CT_CBID_MAX / 64]; /* bits: makes a graph ready to run, or launches one */
static bool work_wanted;
static _Atomic uint32_t calls_wanted;
static atomic_uint ranges; /* records of calls that begin a range */
static _Atomic uint64_t work_until = UINT64_MAX; /* when work's records went off; UINT64_MAX while they are on */

static void want_call(uint32_t domain, uint32_t cbid, const char *callback, const struct ct_calls *calls)
{
	char name[128];
	if (!(calls->count > 0 ? listed(callback, calls) : call_creates_work(callback)))
		return;
	call_name(callback, name, sizeof name);
	creates_work[domain][cbid] = work_wanted && call_creates_work(callback);
	names[domain][cbid] = ct_name_number(name);
	calls_wanted += names[domain][cbid] != 0;
}

static void want_by_name(const struct ct_cupti *api, uint32_t domain, const struct ct_calls *calls)
{
	unsigned misses = 0;
	for (uint32_t cbid = 1; cbid < CT_CBID_MAX && misses < CT_CBID_GAP; cbid++) {
		const char *name = NULL;
		if (api->get_callback_name(domain, cbid, &name) != 0 || !name) {
			misses++;
			continue;
		}
		misses = 0;
		if (starts_with(name, with_graph, sizeof with_graph / sizeof with_graph[0]))
			graph_calls[domain][cbid / 64] |= 1ull << cbid % 64;
		want_call(domain, cbid, name, calls);
	}
}

/* Called once, before any record is made; work says whether GPU work has records, too. */
void ct_want_calls(const struct ct_cupti *api, const struct ct_calls *calls, bool work)
{
	work_wanted = work;
	for (uint32_t domain = DOMAIN_DRIVER; domain <= DOMAIN_RUNTIME; domain++)
		want_by_name(api, domain, calls);
}

/* For a call that CUPTI refuses. */
void ct_unwant_call(uint32_t domain, uint32_t cbid)
{
	names[domain][cbid] = 0;
	calls_wanted--;
}

uint32_t ct_wanted_calls(void)
{
	return calls_wanted;
}

/* The number of the name of a wanted call, else 0. */
uint32_t ct_wanted_name(uint32_t domain, uint32_t cbid)
{
	return domain < CT_DOMAINS && cbid < CT_CBID_MAX ? names[domain][cbid] : 0;
}

bool ct_wanted_creates_work(uint32_t domain, uint32_t cbid)
{
	return domain < CT_DOMAINS && cbid < CT_CBID_MAX && creates_work[domain][cbid];
}

bool ct_graph_call(uint32_t domain, uint32_t cbid)
{
	return domain < CT_DOMAINS && cbid < CT_CBID_MAX && graph_calls[domain][cbid / 64] >> cbid % 64 & 1;
}

/*
 * Whether CUPTI was on while the program made a graph ready to run, or launched one: in any recording of the process so far,
 * also if nobody wanted its records any more. Behind cuptiFinalize the GPU then writes, probably times for such a graph, to
 * memory that is no longer there, and the program dies of it (H200, CUPTI 13.0.1).
 */
static CT_KEPT atomic_bool own_graphs, *graphs = &own_graphs;

void ct_graphs_of(atomic_bool *process)
{
	graphs = process;
}

void ct_graph_seen(void)
{
	atomic_store_explicit(graphs, true, memory_order_relaxed);
}

bool ct_graphs(void)
{
	return atomic_load(graphs);
}

/* CUPTI has a record of a call that begins the range to record. */
void ct_range_began(void)
{
	atomic_fetch_add(&ranges, 1);
}

uint32_t ct_ranges_begun(void)
{
	return atomic_load(&ranges);
}

void ct_want_work(void)
{
	atomic_store(&work_until, UINT64_MAX);
}

/* The records of work are off: calls that begin later do not count. */
void ct_unwant_work(void)
{
	uint64_t none = UINT64_MAX;
	atomic_compare_exchange_strong(&work_until, &none, ct_now());
}

/* Whether a call that began then is part of the recording. */
bool ct_wanted_time(uint64_t start)
{
	return start <= atomic_load_explicit(&work_until, memory_order_relaxed);
}
