/*
 * The NVTX ranges that recording is limited to. Functions of ours stand before CUPTI's in the program's table
 * of NVTX. They match the names of ranges with the pattern that the recorder gave, and tell when the first
 * such range begins and the last one ends, in the program's own call: before CUPTI sees the beginning, so that
 * the range is recorded, and after it has seen the end. Each call goes on to CUPTI, and the program gets CUPTI's result.
 *
 * A pushed range is ended by the pop that leaves the domain's stack of its thread as it was. So a pushed range of that
 * name has a count of the ranges that its thread has pushed since. A selected range that begins when OPEN others are open
 * already switches nothing.
 *
 * Recording may be limited further, to ranges with some numbers, steps: the number at the end of the name or, without
 * one, the count of such ranges that have begun before. As in the filters of logs, the first range of a number is the
 * step.
 *
 * Names in wide characters select nothing: a range that is pushed with one is counted alone.
 */
#include "range.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base.h"
#include "queue.h"
#include "wire.h"

#define OPEN 256	     /* ranges at one time */
#define DOMAINS 64   /* and STRINGS: powers of two */
#define STRINGS 4096 /* registered strings */
#define LONGEST 32768 /* characters of a name, as in the log */

static char name[CT_RANGE_MAX + 1]; /* a glob, NUL, and the glob of the domain, of which the default one has the name "" */
static const char *domain_name = name;
static atomic_bool chosen;
static void (*_Atomic changed)(void);

enum { UNSELECTED = -2, COUNTED = -1 }; /* what a range may have in place of a number */
static uint64_t first_step;
static uint32_t step_count;		     /* 0: all ranges */
static atomic_uint begun[CT_STEPS_MAX / 32]; /* a bit for each step that has begun, from the first one on */
static atomic_uint_least64_t counted;	     /* ranges without a number */

static struct ct_lock lock;
static struct open {
	void *domain;
	uint64_t id;	 /* of a started range; 0 for a pushed one */
	uint64_t thread; /* of a pushed range */
	uint32_t above;	 /* ranges that the thread has pushed after it */
} opens[OPEN];
static unsigned open_count;
static atomic_uint now_open; /* is changed under the lock */
static atomic_bool switched; /* the recording knows that a range is open */

/* Handles are added only. */
static void *_Atomic strings[STRINGS], *_Atomic domains[DOMAINS];
static _Atomic int64_t numbers[STRINGS]; /* of the strings; each is set before the program has the handle */

#define INDEX(module, number, function, result, params, args, none) I_##function,
enum { NVTX_RANGE_FUNCTIONS(INDEX) FUNCTIONS };
#undef INDEX
_Static_assert(FUNCTIONS == CT_RANGE_FUNCTIONS, "functions");

/* The functions that ours pass on to; NULL where CUPTI has none. */
static nvtx_fn _Atomic next[FUNCTIONS];

/* What a person is told, once. */
enum remark { DOMAINS_FULL, STRINGS_FULL, OPEN_FULL, OTHER_STEP, REMARKS };
#define MISSING "NVTX ranges that bound the recording may have been missed: "
static const char *const remarks[] = {
	[DOMAINS_FULL] = MISSING "more than 64 domains match the pattern",
	[STRINGS_FULL] = MISSING "more than 4,096 registered strings match the pattern",
	[OPEN_FULL] = MISSING "more than 256 of them were open at one time",
	[OTHER_STEP] = "",
};
_Static_assert(sizeof remarks / sizeof remarks[0] == REMARKS && DOMAINS == 64 && STRINGS == 4096 && OPEN == 256, "remarks");
static atomic_uint made, unsaid; /* a bit for each remark */

/* Before there is a recorder, remarks wait. */
static void say_remarks(void)
{
	if (atomic_load(&unsaid) == 0 || !atomic_load(&changed))
		return;
	for (unsigned i = 0; i < REMARKS; i++)
		if (atomic_fetch_and(&unsaid, ~(1u << i)) >> i & 1)
			ct_queue_note(i == OTHER_STEP ? CT_NOTE_STEP : CT_NOTE_WARNING, remarks[i]);
}

/* Notes a remark, which say_remarks says. */
static void remark(enum remark what)
{
	if ((atomic_fetch_or(&made, 1u << what) >> what & 1) == 0)
		atomic_fetch_or(&unsaid, 1u << what);
}

__attribute__((visibility("default"), noinline)) void cudaTraceRangeBegins(void)
{
	__asm__ volatile("" ::: "memory");
}

__attribute__((visibility("default"), noinline)) void cudaTraceRangeEnds(void)
{
	__asm__ volatile("" ::: "memory");
}

/*
 * Text is the glob of a name, NUL, that of a domain; NULL for none. Of these ranges, count numbers from first on are
 * chosen; 0: all ranges. The first choice holds.
 */
void ct_range_choose(const char *text, uint32_t length, uint64_t first, uint32_t count)
{
	if (!text || length == 0 || length > CT_RANGE_MAX || count > CT_STEPS_MAX || atomic_load(&chosen))
		return;
	ct_lock(&lock);
	if (!atomic_load(&chosen)) {
		memcpy(name, text, length);
		domain_name = name + strnlen(name, length);
		if (domain_name < name + length)
			domain_name++;
		first_step = first;
		step_count = count;
		atomic_store(&chosen, true);
	}
	ct_unlock(&lock);
}

bool ct_range_wanted(void)
{
	return atomic_load(&chosen);
}

bool ct_range_open(void)
{
	return atomic_load(&now_open) > 0;
}

/* In a forked child: a thread that is not there any more may have held the lock. */
void ct_range_forked(void)
{
	lock = (struct ct_lock){0};
}

/* A name, or its beginning, in UTF-8. */
struct text {
	const char *bytes;
	size_t length;
};

static struct text text_of(const char *text)
{
	return (struct text){.bytes = text, .length = text ? strnlen(text, LONGEST) : 0};
}

/* The character that begins a text of some bytes, and how many of them it takes. A byte that begins no character is one of its own. */
static uint32_t utf8(const char *text, size_t *bytes)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = p[0] < 0xc2 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 1, have = 1;
	uint32_t c = n == 1 ? p[0] : p[0] & 0x7fu >> n;
	for (; have < n && have < *bytes && (p[have] & 0xc0) == 0x80; have++)
		c = c << 6 | (p[have] & 0x3f);
	bool broken = have < n || (n == 1 && c >= 0x80);
	*bytes = broken ? 1 : n;
	return broken ? 0x110000u | p[0] : c;
}

/* The character at a place of a name; the place moves behind it. */
static uint32_t next_of(const struct text *t, size_t *at)
{
	size_t bytes = t->length - *at;
	uint32_t c = utf8(t->bytes + *at, &bytes);
	*at += bytes;
	return c;
}

/* The next character of a glob as it is, 0 at the end; the glob moves behind it. */
static uint32_t literal(const char **glob)
{
	if (**glob == '\\')
		++*glob;
	size_t bytes = strnlen(*glob, 4);
	if (bytes == 0)
		return 0;
	uint32_t c = utf8(*glob, &bytes);
	*glob += bytes;
	return c;
}

/* Whether the next element of a glob, which is no *, matches a character; the glob moves behind the element. */
static bool one(const char **glob, uint32_t c)
{
	if (**glob == '?') {
		++*glob;
		return true;
	}
	if (**glob != '[')
		return literal(glob) == c;
	bool others = *++*glob == '^', in = false;
	if (others)
		++*glob;
	while (**glob && **glob != ']') {
		uint32_t low = literal(glob), high = low;
		if (**glob == '-') {
			++*glob;
			high = literal(glob);
		}
		in |= low <= c && c <= high;
	}
	if (**glob)
		++*glob;
	return in != others;
}

/* Whether a glob matches a whole name, by the rules of the recorder (record/pattern). */
static bool matches(const char *glob, const struct text *t)
{
	const char *star = NULL;
	size_t at = 0, retry = 0;
	while (at < t->length) {
		size_t after = at;
		if (*glob == '*') {
			star = ++glob;
			retry = at;
		} else if (*glob && one(&glob, next_of(t, &after))) {
			at = after;
		} else if (star) {
			glob = star;
			next_of(t, &retry);
			at = retry;
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return *glob == 0;
}

/* Whether a place of a name has one of some ASCII characters. */
static bool is_in(const struct text *t, size_t at, const char *set)
{
	while (*set && *set != t->bytes[at])
		set++;
	return *set != 0;
}

/*
 * The number of a range with a name, COUNTED if the name has none, UNSELECTED if another range was chosen: "step" selects
 * "step", "step 7" and "step 7, loss".
 */
static int64_t selected(struct text t)
{
	size_t digits, stem;
	if (!t.bytes || name[0] == 0)
		return UNSELECTED;
	bool is = matches(name, &t);
	size_t whole = t.length;
	for (t.length = 0; t.length < whole && !is_in(&t, t.length, ",");)
		t.length++;
	is = is || (t.length < whole && matches(name, &t));
	for (digits = t.length; digits > 0 && is_in(&t, digits - 1, "0123456789");)
		digits--;
	for (stem = digits; stem > 0 && is_in(&t, stem - 1, " _-#:=./");)
		stem--;
	if (digits == t.length || t.length - digits > 10 || stem == 0)
		return is ? COUNTED : UNSELECTED;
	int64_t number = 0;
	for (size_t i = digits; i < t.length; i++)
		number = 10 * number + t.bytes[i] - '0';
	t.length = stem;
	return is || matches(name, &t) ? number : UNSELECTED;
}

/* The place of a number among the chosen steps; step_count or more for another. */
static uint64_t step_of(int64_t number)
{
	return (uint64_t)number - first_step;
}

/* Whether a selected range that begins is recorded: if steps are chosen, the first range of each one. */
static bool begins_step(int64_t number)
{
	if (step_count == 0)
		return true;
	uint64_t step = step_of(number == COUNTED ? (int64_t)atomic_fetch_add(&counted, 1) : number);
	if (step < step_count)
		return (atomic_fetch_or(&begun[step / 32], 1u << step % 32) >> step % 32 & 1) == 0;
	remark(OTHER_STEP);
	say_remarks();
	return false;
}

static bool selects_domain(struct text t)
{
	return t.bytes && matches(domain_name, &t);
}

/* The place of a handle in a list of a power of two, from which on it is searched. */
static size_t place(const void *handle, size_t places)
{
	return (size_t)((uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u >> 32) & (places - 1);
}

/* Both return the handle's place, and places if it has none. */
static size_t remember(void *_Atomic *list, size_t places, void *handle, enum remark full)
{
	for (size_t i = 0; handle && i < places; i++) {
		size_t at = (place(handle, places) + i) & (places - 1);
		void *none = NULL;
		if (atomic_load(&list[at]) == handle || atomic_compare_exchange_strong(&list[at], &none, handle))
			return at;
	}
	if (handle)
		remark(full);
	say_remarks();
	return places;
}

static size_t find(void *_Atomic *list, size_t places, const void *handle)
{
	for (size_t i = 0; handle && i < places; i++) {
		size_t at = (place(handle, places) + i) & (places - 1);
		const void *is = atomic_load(&list[at]);
		if (is == handle || !is)
			return is ? at : places;
	}
	return places;
}

/* A string has been registered. Those of other steps are not remembered: there may be one for each step. */
static void *registered(void *handle, int64_t number)
{
	if (number == UNSELECTED)
		return handle;
	if (step_count > 0 && number != COUNTED && step_of(number) >= step_count) {
		begins_step(number); /* for its remark */
		return handle;
	}
	size_t at = remember(strings, STRINGS, handle, STRINGS_FULL);
	if (at < STRINGS)
		atomic_store(&numbers[at], number);
	return handle;
}

/* The number of a range with these attributes, as selected returns it. */
static int64_t selected_message(const void *attributes)
{
	uint16_t size;
	int32_t type;
	const void *message;
	if (!attributes)
		return UNSELECTED;
	memcpy(&size, (const char *)attributes + NVTX_SIZE_OF, sizeof size);
	if (size < NVTX_ATTRIBUTES_MIN)
		return UNSELECTED;
	memcpy(&type, (const char *)attributes + NVTX_MESSAGE_TYPE, sizeof type);
	memcpy(&message, (const char *)attributes + NVTX_MESSAGE, sizeof message);
	if (type == NVTX_ASCII)
		return selected(text_of(message));
	size_t at = type == NVTX_REGISTERED ? find(strings, STRINGS, message) : STRINGS;
	return at < STRINGS ? atomic_load(&numbers[at]) : UNSELECTED;
}

static bool in_domain(const void *domain)
{
	if (domain_name[0] == '*' && domain_name[1] == 0)
		return true;
	return domain ? find(domains, DOMAINS, domain) < DOMAINS : selects_domain(text_of(""));
}

static uint64_t this_thread(void)
{
	pthread_t self = pthread_self();
	uint64_t number = 0;
	memcpy(&number, &self, sizeof self < sizeof number ? sizeof self : sizeof number);
	return number;
}

/*
 * Called without the lock. Another thread may begin or end a range meanwhile: the last one to look
 * leaves everything as it should be.
 */
static void tell(void)
{
	bool is;
	do {
		is = ct_range_open();
		void (*f)(void) = atomic_load(&changed);
		if (is)
			cudaTraceRangeBegins();
		if (f)
			f();
		atomic_store(&switched, is);
		if (!is)
			cudaTraceRangeEnds();
	} while (is != ct_range_open());
}

/* Recording has begun. f is called now, and after each change between no open range and some, by any thread. */
void ct_range_tell(void (*f)(void))
{
	atomic_store(&changed, f);
	tell();
	say_remarks();
}

/*
 * A range more is open; under the lock, as is the next. True if the recording may not know yet that one is: the thread
 * tells it, and so waits until another thread that does has switched the records on.
 */
static bool opened(void)
{
	atomic_fetch_add(&now_open, 1);
	return !atomic_load(&switched);
}

/* A range less is open. True if it was the last. */
static bool closed(void)
{
	return atomic_fetch_sub(&now_open, 1) == 1;
}

/* The selected range that a thread has pushed onto a domain's stack; under the lock. */
static struct open *pushed(const void *domain)
{
	uint64_t thread = this_thread();
	for (unsigned i = 0; i < open_count; i++)
		if (opens[i].id == 0 && opens[i].thread == thread && opens[i].domain == domain)
			return &opens[i];
	return NULL;
}

/* Whether a range that begins in a domain is recorded, by the number that selected returned. */
static bool recorded(const void *domain, int64_t number)
{
	return number != UNSELECTED && in_domain(domain) && begins_step(number);
}

/* A range is pushed. */
static void push(void *domain, int64_t number)
{
	if (ct_forked())
		return;
	bool change = false, follow = recorded(domain, number);
	if (!follow && !ct_range_open())
		return;
	ct_lock(&lock);
	struct open *o = pushed(domain);
	if (o) {
		o->above++;
	} else if (follow && open_count < OPEN) {
		opens[open_count++] = (struct open){.domain = domain, .thread = this_thread()};
		change = opened();
	} else if (follow) {
		remark(OPEN_FULL);
	}
	ct_unlock(&lock);
	if (change)
		tell();
	say_remarks();
}

static bool end(unsigned i)
{
	opens[i] = opens[--open_count];
	return closed();
}

static void pop(const void *domain)
{
	bool change = false;
	if (ct_forked() || !ct_range_open())
		return;
	ct_lock(&lock);
	struct open *o = pushed(domain);
	if (o && o->above > 0)
		o->above--;
	else if (o)
		change = end((unsigned)(o - opens));
	ct_unlock(&lock);
	if (change)
		tell();
}

/* A range is about to be started; its number is known only then. */
static bool start(const void *domain, int64_t number)
{
	if (ct_forked() || !recorded(domain, number))
		return false;
	ct_lock(&lock);
	bool change = opened();
	ct_unlock(&lock);
	if (change)
		tell();
	return true;
}

/* It has been started. */
static uint64_t started(bool follow, uint64_t id)
{
	bool change = false;
	if (!follow)
		return id;
	ct_lock(&lock);
	if (id != 0 && open_count < OPEN) {
		opens[open_count++] = (struct open){.id = id};
	} else {
		change = closed();
		if (id != 0)
			remark(OPEN_FULL);
	}
	ct_unlock(&lock);
	if (change)
		tell();
	say_remarks();
	return id;
}

static void stopped(uint64_t id)
{
	bool change = false;
	if (ct_forked() || id == 0 || !ct_range_open())
		return;
	ct_lock(&lock);
	for (unsigned i = 0; i < open_count; i++) {
		if (opens[i].id != id)
			continue;
		change = end(i);
		break;
	}
	ct_unlock(&lock);
	if (change)
		tell();
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
NVTX_RANGE_FUNCTIONS(NVTX_PASS)
#pragma GCC diagnostic pop

static uint64_t on_RangeStartEx(const void *a)
{
	bool follow = start(NULL, selected_message(a));
	return started(follow, pass_RangeStartEx(a));
}

static uint64_t on_RangeStartA(const char *text)
{
	bool follow = start(NULL, selected(text_of(text)));
	return started(follow, pass_RangeStartA(text));
}

static void on_RangeEnd(uint64_t id)
{
	pass_RangeEnd(id);
	stopped(id);
}

static int on_RangePushEx(const void *a)
{
	push(NULL, selected_message(a));
	return pass_RangePushEx(a);
}

static int on_RangePushA(const char *text)
{
	push(NULL, selected(text_of(text)));
	return pass_RangePushA(text);
}

static int on_RangePushW(const wchar_t *text)
{
	push(NULL, UNSELECTED);
	return pass_RangePushW(text);
}

static int on_RangePop(void)
{
	int level = pass_RangePop();
	pop(NULL);
	return level;
}

static uint64_t on_DomainRangeStartEx(void *d, const void *a)
{
	bool follow = start(d, selected_message(a));
	return started(follow, pass_DomainRangeStartEx(d, a));
}

static void on_DomainRangeEnd(void *d, uint64_t id)
{
	pass_DomainRangeEnd(d, id);
	stopped(id);
}

static int on_DomainRangePushEx(void *d, const void *a)
{
	push(d, selected_message(a));
	return pass_DomainRangePushEx(d, a);
}

static int on_DomainRangePop(void *d)
{
	int level = pass_DomainRangePop(d);
	pop(d);
	return level;
}

static void *on_DomainRegisterStringA(void *d, const char *text)
{
	return registered(pass_DomainRegisterStringA(d, text), selected(text_of(text)));
}

static void *on_DomainCreateA(const char *text)
{
	void *handle = pass_DomainCreateA(text);
	if (selects_domain(text_of(text)))
		remember(domains, DOMAINS, handle, DOMAINS_FULL);
	return handle;
}

const struct ct_nvtx_hook ct_range_hooks[CT_RANGE_FUNCTIONS] = {
#define OURS(module, number, function, result, params, args, none) \
	{NVTX_##module, number, (nvtx_fn)on_##function, &next[I_##function]},
	NVTX_RANGE_FUNCTIONS(OURS)
#undef OURS
};
