/*
 * The NVTX range that recording is limited to. Functions of ours stand before CUPTI's in the program's table
 * of NVTX. They compare the names of ranges with the name that the recorder gave, and tell when the first
 * such range begins and the last one ends, in the program's own call: before CUPTI sees the beginning, so that
 * the range is recorded, and after it has seen the end. Each call goes on to CUPTI, and the program gets CUPTI's result.
 *
 * With steps, the ranges of that name are numbered: by the number behind the name ("step 7"), or without one in the
 * order in which they begin. Then recording lasts from the beginning of the first chosen step to the end of the last
 * one, also between the steps, and never again. A range that begins while another one is open is a part of that one's step.
 *
 * The steps may also be the program's own capture ranges, from cudaProfilerStart to cudaProfilerStop, which switch.c sees.
 * Then no functions of NVTX are ours.
 *
 * A pushed range is ended by the pop that leaves the domain's stack of its thread as it was. So a pushed range of that
 * name has a count of the ranges that its thread has pushed since. A range that begins when OPEN others are open
 * already switches nothing.
 */
#include "range.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "fork.h"
#include "lock.h"
#include "nvtx_table.h"
#include "queue.h"
#include "wire.h"

#define NAME_MAX_BYTES 1024u
#define OPEN 256	 /* ranges of that name at one time */
#define HANDLES 64 /* strings or domains of that name */
#define STEP_HANDLES 2048 /* strings of that name with a number */

/* What a range is: none of that name, one without a number, or the number of a step. */
#define NO_STEP (-1)
#define NEXT_STEP (-2)

static char name[NAME_MAX_BYTES + 1]; /* then NUL and the domain: "" is the default one, "*" is any */
static const char *domain_name = name;
static bool by_steps;
static bool by_profiler, profiling; /* the steps are the program's capture ranges; it is in one, under the lock */
static int64_t first_step, last_step; /* with by_steps */
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
static int64_t counted, latest; /* steps without a number, the latest step */
static bool over;		/* the chosen steps have been recorded */
static atomic_uint now_open;	/* is changed under the lock, as is the next */
static atomic_bool recording;

/* Handles are added only. */
static void *_Atomic strings[HANDLES], *_Atomic domains[HANDLES], *_Atomic numbered[STEP_HANDLES];
static int64_t numbers[STEP_HANDLES]; /* of numbered, and under the lock as they are */

#define INDEX(module, number, function, result, params, args, none) I_##function,
enum { NVTX_RANGE_FUNCTIONS(INDEX) FUNCTIONS };
#undef INDEX
_Static_assert(FUNCTIONS == CT_RANGE_FUNCTIONS, "functions");

/* The functions that ours pass on to; NULL where CUPTI has none. */
static nvtx_fn _Atomic next[FUNCTIONS];

/* What a person is told, once. */
enum remark { DOMAINS_FULL, STRINGS_FULL, STEPS_FULL, OPEN_FULL, NUMBERS_RESTARTED, STEPS_REPEATED, REMARKS };
#define MISSING "NVTX ranges that bound the recording may have been missed: "
static const struct {
	uint32_t severity;
	const char *text;
} remarks[] = {
	[DOMAINS_FULL] = {1, MISSING "more than 64 domains have the name that was given"},
	[STRINGS_FULL] = {1, MISSING "more than 64 registered strings have the name that was given"},
	[STEPS_FULL] = {1, MISSING "more than 2,048 registered strings are names of chosen steps"},
	[OPEN_FULL] = {1, MISSING "more than 256 of them were open at one time"},
	[NUMBERS_RESTARTED] = {0, "the numbers of the steps began again before the last chosen step came: recording ended there"},
	[STEPS_REPEATED] = {0, "chosen steps came again, and were not recorded again: --steps records them once"},
};
_Static_assert(sizeof remarks / sizeof remarks[0] == REMARKS && HANDLES == 64 && STEP_HANDLES == 2048 && OPEN == 256, "remarks");
static atomic_uint made, unsaid; /* a bit for each remark */

/* Before there is a recorder, remarks wait. */
static void say_remarks(void)
{
	if (atomic_load(&unsaid) == 0 || !atomic_load(&changed))
		return;
	for (unsigned i = 0; i < REMARKS; i++) {
		if ((atomic_fetch_and(&unsaid, ~(1u << i)) >> i & 1) == 0)
			continue;
		struct ct_note note = {.severity = remarks[i].severity, .text_len = (uint32_t)strlen(remarks[i].text)};
		ct_queue_message(CT_MSG_NOTE, &note, sizeof note, remarks[i].text, note.text_len);
	}
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

/* The steps behind name and domain: NUL, the first and the last one, 4 bytes each. */
static void choose_steps(const char *text, uint32_t length)
{
	uint32_t first, last;
	if (length != 1 + sizeof first + sizeof last)
		return;
	memcpy(&first, text + 1, sizeof first);
	memcpy(&last, text + 1 + sizeof first, sizeof last);
	first_step = first;
	last_step = last;
	by_steps = true;
}

/* Text is a name, NUL, a domain, and the steps: no name for steps of cudaProfilerStart. The first choice holds. */
void ct_range_choose(const char *text, uint32_t length)
{
	if (length == 0 || length > NAME_MAX_BYTES || atomic_load(&chosen))
		return;
	ct_lock(&lock);
	if (!atomic_load(&chosen)) {
		memcpy(name, text, length);
		domain_name = name + strnlen(name, length);
		if (domain_name < name + length)
			domain_name++;
		const char *end = domain_name + strnlen(domain_name, (size_t)(name + length - domain_name));
		choose_steps(end, (uint32_t)(name + length - end));
		by_profiler = by_steps && name[0] == 0;
		atomic_store(&chosen, true);
	}
	ct_unlock(&lock);
}

bool ct_range_wanted(void)
{
	return atomic_load(&chosen) && !by_profiler;
}

bool ct_range_profiled(void)
{
	return atomic_load(&chosen) && by_profiler;
}

bool ct_range_open(void)
{
	return atomic_load(&recording);
}

static bool any_open(void)
{
	return atomic_load(&now_open) > 0;
}

/* In a forked child: a thread that is not there any more may have held the lock. */
void ct_range_forked(void)
{
	lock = (struct ct_lock){0};
}

static bool separates(char c)
{
	for (const char *s = " _-#:=./"; *s; s++)
		if (c == *s)
			return true;
	return false;
}

/*
 * The step of a range whose name goes on behind the chosen one. "step 7", "step_7" and "step#7" are step 7. PyTorch adds
 * further facts behind a comma.
 */
static int64_t step_behind(const char *rest)
{
	if (*rest == 0)
		return NEXT_STEP;
	if (!by_steps)
		return NO_STEP;
	if (*rest == ',')
		return NEXT_STEP;
	while (separates(*rest))
		rest++;
	int64_t number = 0;
	unsigned digits = 0;
	for (; *rest >= '0' && *rest <= '9' && digits < 10; rest++, digits++)
		number = number * 10 + (*rest - '0');
	return digits > 0 && (*rest == 0 || *rest == ',') ? number : NO_STEP;
}

/* The step that a range of a name is. */
static int64_t step_of(const char *text)
{
	size_t length = strlen(name);
	return text && strncmp(text, name, length) == 0 ? step_behind(text + length) : NO_STEP;
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

/* The beginning of a wide text in UTF-8, for its step: a longer one than the name and a number is cut. */
static int64_t step_of_wide(const wchar_t *text)
{
	static const size_t behind = 32;
	char bytes[NAME_MAX_BYTES + 32 + 4];
	size_t used = 0, most = strlen(name) + behind;
	if (!text)
		return NO_STEP;
	for (; *text && used < most; text++)
		used += utf8((uint32_t)*text & 0x1fffff, bytes + used);
	bytes[used] = 0;
	return step_of(bytes);
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

/* Whether a step with a number is not one of the chosen ones. */
static bool unchosen(int64_t step)
{
	return step >= 0 && (step < first_step || step > last_step);
}

/* Remembers a string that is the name of a step. Of the others one is of use that ends recording. */
static void remember_step(void *handle, int64_t step)
{
	if (step == NEXT_STEP)
		remember(strings, handle, STRINGS_FULL);
	if (!handle || step < 0 || (unchosen(step) && !ct_range_open()) || ct_forked())
		return;
	ct_lock(&lock);
	unsigned i = 0;
	for (void *at; i < STEP_HANDLES && (at = atomic_load(&numbered[i])) != NULL && at != handle; i++)
		;
	if (i < STEP_HANDLES) {
		numbers[i] = step;
		atomic_store(&numbered[i], handle);
	} else {
		remark(STEPS_FULL);
	}
	ct_unlock(&lock);
	say_remarks();
}

static bool known(void *_Atomic *list, const void *handle)
{
	for (unsigned i = 0; handle && i < HANDLES; i++)
		if (atomic_load(&list[i]) == handle)
			return true;
	return false;
}

/* The step that a registered string is. */
static int64_t step_of_string(const void *handle)
{
	if (known(strings, handle))
		return NEXT_STEP;
	void *at = NULL;
	for (unsigned i = 0; handle && i < STEP_HANDLES && (at = atomic_load(&numbered[i])) != NULL; i++)
		if (at == handle)
			return numbers[i];
	return NO_STEP;
}

/* The step that a range with attributes is. */
static int64_t step_of_message(const void *attributes)
{
	uint16_t size;
	int32_t type;
	const void *message;
	if (!attributes)
		return NO_STEP;
	memcpy(&size, (const char *)attributes + NVTX_SIZE_OF, sizeof size);
	if (size < NVTX_ATTRIBUTES_MIN)
		return NO_STEP;
	memcpy(&type, (const char *)attributes + NVTX_MESSAGE_TYPE, sizeof type);
	memcpy(&message, (const char *)attributes + NVTX_MESSAGE, sizeof message);
	switch (type) {
	case NVTX_ASCII:
		return step_of(message);
	case NVTX_UNICODE:
		return step_of_wide(message);
	case NVTX_REGISTERED:
		return step_of_string(message);
	}
	return NO_STEP;
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

/* Whether to record from now on; under the lock. True if that is a change. */
static bool record(bool is)
{
	return atomic_exchange(&recording, is) != is;
}

/* Ends the recording of steps, if it has begun. Under the lock, as are the next. True if recording changes. */
static bool finish(void)
{
	over = over || ct_range_open();
	return record(false);
}

/*
 * Whether numbers begin again, as those of an epoch do. A number that is lower by one may be that of a thread that is
 * behind others.
 */
static bool restarts(int64_t step)
{
	bool is = step >= 0 && step + 1 < latest && ct_range_open();
	if (is)
		remark(NUMBERS_RESTARTED);
	return is;
}

/* A range is open, one more. True if recording changes. */
static bool opened(int64_t step)
{
	bool inner = atomic_fetch_add(&now_open, 1) > 0;
	if (!by_steps)
		return record(true);
	bool restarted = !inner && restarts(step);
	if (step == NEXT_STEP)
		step = inner ? latest : counted++;
	if (step > latest)
		latest = step;
	if (over) {
		if (step >= first_step && step <= last_step)
			remark(STEPS_REPEATED);
		return false;
	}
	if (step > last_step || restarted) /* the last one may not have come */
		return !inner && finish();
	return step >= first_step && record(true);
}

static bool closed(void)
{
	if (atomic_fetch_sub(&now_open, 1) > 1)
		return false;
	if (!by_steps)
		return record(false);
	return latest >= last_step && finish();
}

/* The program has begun or ended a capture range, or has done so before and says it again. */
void ct_range_profiler(bool begins)
{
	bool change = false;
	if (ct_forked())
		return;
	ct_lock(&lock);
	if (begins != profiling) {
		profiling = begins;
		change = begins ? opened(NEXT_STEP) : closed();
	}
	ct_unlock(&lock);
	if (change)
		tell();
}

/* Those calls cannot be seen: all is recorded. */
void ct_range_unseen(void)
{
	atomic_store(&recording, true);
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

/* Whether a range is to be followed: of steps with a number only the chosen ones are, and any that may end recording. */
static bool wanted(const void *domain, int64_t step)
{
	if (step == NO_STEP || (unchosen(step) && (any_open() || !ct_range_open())))
		return false;
	return in_domain(domain);
}

/* A range is pushed. */
static void push(void *domain, int64_t step)
{
	bool change = false, follow = wanted(domain, step);
	if (ct_forked() || (!follow && !any_open()))
		return;
	ct_lock(&lock);
	struct open *o = pushed(domain);
	if (o) {
		o->above++;
	} else if (follow && open_count < OPEN) {
		opens[open_count++] = (struct open){.domain = domain, .thread = this_thread()};
		change = opened(step);
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
	if (ct_forked() || !any_open())
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
static bool start(const void *domain, int64_t step)
{
	if (ct_forked() || !wanted(domain, step))
		return false;
	ct_lock(&lock);
	bool change = opened(step);
	ct_unlock(&lock);
	if (change)
		tell();
	say_remarks();
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
	if (ct_forked() || id == 0 || !any_open())
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
	bool follow = start(NULL, step_of_message(a));
	return started(follow, pass_RangeStartEx(a));
}

static uint64_t on_RangeStartA(const char *text)
{
	bool follow = start(NULL, step_of(text));
	return started(follow, pass_RangeStartA(text));
}

static uint64_t on_RangeStartW(const wchar_t *text)
{
	bool follow = start(NULL, step_of_wide(text));
	return started(follow, pass_RangeStartW(text));
}

static void on_RangeEnd(uint64_t id)
{
	pass_RangeEnd(id);
	stopped(id);
}

static int on_RangePushEx(const void *a)
{
	push(NULL, step_of_message(a));
	return pass_RangePushEx(a);
}

static int on_RangePushA(const char *text)
{
	push(NULL, step_of(text));
	return pass_RangePushA(text);
}

static int on_RangePushW(const wchar_t *text)
{
	push(NULL, step_of_wide(text));
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
	bool follow = start(d, step_of_message(a));
	return started(follow, pass_DomainRangeStartEx(d, a));
}

static void on_DomainRangeEnd(void *d, uint64_t id)
{
	pass_DomainRangeEnd(d, id);
	stopped(id);
}

static int on_DomainRangePushEx(void *d, const void *a)
{
	push(d, step_of_message(a));
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
	remember_step(handle, step_of(text));
	return handle;
}

static void *on_DomainRegisterStringW(void *d, const wchar_t *text)
{
	void *handle = pass_DomainRegisterStringW(d, text);
	remember_step(handle, step_of_wide(text));
	return handle;
}

static void *on_DomainCreateA(const char *text)
{
	void *handle = pass_DomainCreateA(text);
	if (text && strlen(text) == strlen(domain_name) && memcmp(text, domain_name, strlen(text)) == 0)
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

static const struct ct_nvtx_hook ours[] = {
#define OURS(module, number, function, result, params, args, none) \
	{NVTX_##module, number, (nvtx_fn)on_##function, &next[I_##function]},
	NVTX_RANGE_FUNCTIONS(OURS)
#undef OURS
};

/* CUPTI is about to take a program's table. */
void ct_range_before(void *get_export_table, struct ct_range_table *t)
{
	ct_nvtx_before(get_export_table, ours, FUNCTIONS, t->functions);
}

/* CUPTI has taken it. */
void ct_range_after(void *get_export_table, const struct ct_range_table *t)
{
	ct_nvtx_after(get_export_table, ours, FUNCTIONS, t->functions);
}
