/*
 * The NVTX range that recording is limited to. Functions of ours stand before CUPTI's in the program's table
 * of NVTX. They compare the names of ranges with the name that the recorder gave, and tell when the first
 * such range begins and the last one ends, in the program's own call: before CUPTI sees the beginning, so that
 * the range is recorded, and after it has seen the end. Each call goes on to CUPTI, and the program gets CUPTI's result.
 *
 * A pushed range is ended by the pop that leaves the domain's stack of its thread as it was. So a pushed range of that
 * name has a count of the ranges that its thread has pushed since. A range that begins when OPEN others are open
 * already switches nothing.
 */
#include "range.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base.h"
#include "queue.h"
#include "wire.h"

#define OPEN 256	 /* ranges of that name at one time */
#define HANDLES 64 /* strings or domains of that name */

static char name[CT_RANGE_MAX + 1]; /* then NUL and the domain: "" is the default one, "*" is any */
static const char *domain_name = name;
static atomic_bool chosen;
static void (*_Atomic changed)(void);

static struct ct_lock lock;
static struct open {
	void *domain;
	uint64_t id;	 /* of a started range; 0 for a pushed one */
	uint64_t thread; /* of a pushed range */
	uint32_t above;	 /* ranges that the thread has pushed after it */
} opens[OPEN];
static unsigned open_count;
static atomic_uint now_open; /* is changed under the lock */

/* Handles are added only. */
static void *_Atomic strings[HANDLES], *_Atomic domains[HANDLES];

#define INDEX(module, number, function, result, params, args, none) I_##function,
enum { NVTX_RANGE_FUNCTIONS(INDEX) FUNCTIONS };
#undef INDEX
_Static_assert(FUNCTIONS == CT_RANGE_FUNCTIONS, "functions");

/* The functions that ours pass on to; NULL where CUPTI has none. */
static nvtx_fn _Atomic next[FUNCTIONS];

/* What a person is told, once. */
enum remark { DOMAINS_FULL, STRINGS_FULL, OPEN_FULL, REMARKS };
#define MISSING "NVTX ranges that bound the recording may have been missed: "
static const char *const remarks[] = {
	[DOMAINS_FULL] = MISSING "more than 64 domains have the name that was given",
	[STRINGS_FULL] = MISSING "more than 64 registered strings have the name that was given",
	[OPEN_FULL] = MISSING "more than 256 of them were open at one time",
};
_Static_assert(sizeof remarks / sizeof remarks[0] == REMARKS && HANDLES == 64 && OPEN == 256, "remarks");
static atomic_uint made, unsaid; /* a bit for each remark */

/* Before there is a recorder, remarks wait. */
static void say_remarks(void)
{
	if (atomic_load(&unsaid) == 0 || !atomic_load(&changed))
		return;
	for (unsigned i = 0; i < REMARKS; i++)
		if (atomic_fetch_and(&unsaid, ~(1u << i)) >> i & 1)
			ct_queue_note(1, remarks[i]);
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

/* Text is a name, NUL, a domain; NULL for none. The first choice holds. */
void ct_range_choose(const char *text, uint32_t length)
{
	if (!text || length == 0 || length > CT_RANGE_MAX || atomic_load(&chosen))
		return;
	ct_lock(&lock);
	if (!atomic_load(&chosen)) {
		memcpy(name, text, length);
		domain_name = name + strnlen(name, length);
		if (domain_name < name + length)
			domain_name++;
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

static bool same(const char *text, const char *wanted)
{
	return text && strcmp(text, wanted) == 0;
}

/* The bytes of a character in UTF-8. */
static unsigned utf8(uint32_t c, char *out)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	unsigned n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
	for (unsigned i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(first[n] | c);
	return n;
}

static bool same_wide(const wchar_t *text, const char *wanted)
{
	char bytes[4];
	if (!text)
		return false;
	for (; *text; text++) {
		unsigned n = utf8((uint32_t)*text & 0x1fffff, bytes);
		if (strnlen(wanted, n) < n || memcmp(bytes, wanted, n) != 0)
			return false;
		wanted += n;
	}
	return *wanted == 0;
}

static void remember(void *_Atomic *list, void *handle, enum remark full)
{
	for (unsigned i = 0; handle && i < HANDLES; i++) {
		void *none = NULL;
		if (atomic_load(&list[i]) == handle || atomic_compare_exchange_strong(&list[i], &none, handle))
			return;
	}
	if (handle)
		remark(full);
	say_remarks();
}

static bool known(void *_Atomic *list, const void *handle)
{
	for (unsigned i = 0; handle && i < HANDLES; i++)
		if (atomic_load(&list[i]) == handle)
			return true;
	return false;
}

/* Whether attributes of a range have the name. */
static bool same_message(const void *attributes)
{
	uint16_t size;
	int32_t type;
	const void *message;
	if (!attributes)
		return false;
	memcpy(&size, (const char *)attributes + NVTX_SIZE_OF, sizeof size);
	if (size < NVTX_ATTRIBUTES_MIN)
		return false;
	memcpy(&type, (const char *)attributes + NVTX_MESSAGE_TYPE, sizeof type);
	memcpy(&message, (const char *)attributes + NVTX_MESSAGE, sizeof message);
	return (type == NVTX_ASCII && same(message, name)) || (type == NVTX_UNICODE && same_wide(message, name)) ||
	       (type == NVTX_REGISTERED && known(strings, message));
}

static bool in_domain(const void *domain)
{
	if (domain_name[0] == '*' && domain_name[1] == 0)
		return true;
	return domain ? known(domains, domain) : domain_name[0] == 0;
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

/* A range more is open; under the lock, as is the next. True if it is the first. */
static bool opened(void)
{
	return atomic_fetch_add(&now_open, 1) == 0;
}

/* A range less is open. True if it was the last. */
static bool closed(void)
{
	return atomic_fetch_sub(&now_open, 1) == 1;
}

/* The range of that name that a thread has pushed onto a domain's stack; under the lock. */
static struct open *pushed(const void *domain)
{
	uint64_t thread = this_thread();
	for (unsigned i = 0; i < open_count; i++)
		if (opens[i].id == 0 && opens[i].thread == thread && opens[i].domain == domain)
			return &opens[i];
	return NULL;
}

/* A range is pushed. */
static void push(void *domain, bool named)
{
	bool change = false, follow = named && in_domain(domain);
	if (ct_forked() || (!follow && !ct_range_open()))
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
static bool start(const void *domain, bool named)
{
	if (ct_forked() || !named || !in_domain(domain))
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
	bool follow = start(NULL, same_message(a));
	return started(follow, pass_RangeStartEx(a));
}

static uint64_t on_RangeStartA(const char *text)
{
	bool follow = start(NULL, same(text, name));
	return started(follow, pass_RangeStartA(text));
}

static uint64_t on_RangeStartW(const wchar_t *text)
{
	bool follow = start(NULL, same_wide(text, name));
	return started(follow, pass_RangeStartW(text));
}

static void on_RangeEnd(uint64_t id)
{
	pass_RangeEnd(id);
	stopped(id);
}

static int on_RangePushEx(const void *a)
{
	push(NULL, same_message(a));
	return pass_RangePushEx(a);
}

static int on_RangePushA(const char *text)
{
	push(NULL, same(text, name));
	return pass_RangePushA(text);
}

static int on_RangePushW(const wchar_t *text)
{
	push(NULL, same_wide(text, name));
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
	bool follow = start(d, same_message(a));
	return started(follow, pass_DomainRangeStartEx(d, a));
}

static void on_DomainRangeEnd(void *d, uint64_t id)
{
	pass_DomainRangeEnd(d, id);
	stopped(id);
}

static int on_DomainRangePushEx(void *d, const void *a)
{
	push(d, same_message(a));
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
	void *handle = pass_DomainRegisterStringA(d, text);
	if (same(text, name))
		remember(strings, handle, STRINGS_FULL);
	return handle;
}

static void *on_DomainRegisterStringW(void *d, const wchar_t *text)
{
	void *handle = pass_DomainRegisterStringW(d, text);
	if (same_wide(text, name))
		remember(strings, handle, STRINGS_FULL);
	return handle;
}

static void *on_DomainCreateA(const char *text)
{
	void *handle = pass_DomainCreateA(text);
	if (same(text, domain_name))
		remember(domains, handle, DOMAINS_FULL);
	return handle;
}

static void *on_DomainCreateW(const wchar_t *text)
{
	void *handle = pass_DomainCreateW(text);
	if (same_wide(text, domain_name))
		remember(domains, handle, DOMAINS_FULL);
	return handle;
}

const struct ct_nvtx_hook ct_range_hooks[CT_RANGE_FUNCTIONS] = {
#define OURS(module, number, function, result, params, args, none) \
	{NVTX_##module, number, (nvtx_fn)on_##function, &next[I_##function]},
	NVTX_RANGE_FUNCTIONS(OURS)
#undef OURS
};
