/*
 * What NCCL says about its calls. NCCL pushes an NVTX range of its domain around each call, with a payload: the
 * communicator's hash, which all its ranks have in common, and the bytes that the call names. CUPTI gives such a
 * payload only with a second record for every mark and range of the program. So functions of ours stand before CUPTI's:
 * they learn which domain and which strings are NCCL's, read the payload, and pass every call on. Ranges of other
 * domains cost a comparison.
 *
 * A payload is the memory of a stranger. It is read where its type and its size are those that NCCL gives a call of that
 * name, and no pointer in it is followed. Releases differ in size:
 *
 *   since 2.26   {hash, bytes} and, of some calls, a root or an operation
 *   before       {bytes} alike
 *   some in between   {a count of calls, bytes}: a small number is no hash
 *
 * The end of a communicator tells its number of ranks, and the rank of this process.
 */
#include "nccl.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base.h"
#include "calls.h"
#include "queue.h"
#include "wire.h"

#define DOMAINS 8  /* of NCCL: a process may have several copies of it */
#define STRINGS 512 /* names of NCCL's calls: about 30 a copy */
#define NAME_BYTES 40

#define NCCL_FUNCTIONS(F) \
	F(CORE2, 4, DomainRangePushEx, int, (void *d, const void *a), (d, a), NVTX_NO_LEVEL) \
	F(CORE2, 10, DomainRegisterStringA, void *, (void *d, const char *text), (d, text), NULL) \
	F(CORE2, 12, DomainCreateA, void *, (const char *text), (text), NULL) \
	F(CORE2, 14, DomainDestroy, void, (void *d), (d), )

#define INDEX(module, number, function, result, params, args, none) I_##function,
enum { NCCL_FUNCTIONS(INDEX) FUNCTIONS };
#undef INDEX
_Static_assert(FUNCTIONS == CT_NCCL_FUNCTIONS, "functions");

static nvtx_fn _Atomic next[FUNCTIONS];
static void (*_Atomic taker)(const char *, const struct nvtx_payload *); /* of ranges; NULL: they are not recorded */
static void *_Atomic domains[DOMAINS];
static atomic_bool any_domain;
static struct ct_lock lock;
static struct string {
	void *_Atomic handle; /* is set last; strings are added only */
	char text[NAME_BYTES];
} strings[STRINGS];

#define MISSED "of some calls of NCCL communicator and bytes are not known: more than 8 copies of NCCL, or more than 512 names of calls"
_Static_assert(DOMAINS == 8 && STRINGS == 512, "MISSED");
static atomic_bool missed, said;

/* What the payload of a call begins with, by its size in bytes. */
enum form {
	PLAIN,   /* 8: bytes; 16 and more: hash, bytes */
	WITH,    /* 16: bytes and another number; 24 and more: hash, bytes */
	ROOTED,  /* 24 and more: hash, bytes */
	LIFE,    /* 8: hash; 24: hash, ranks, rank, device */
	UNKNOWN,
};

static const struct {
	const char *name;
	enum form form;
} calls[] = {
	{"ncclAllGather", PLAIN},     {"ncclAlltoAll", PLAIN},      {"ncclAllReduce", WITH},
	{"ncclBroadcast", WITH},      {"ncclReduce", WITH},         {"ncclReduceScatter", WITH},
	{"ncclSend", WITH},           {"ncclRecv", WITH},           {"ncclGather", ROOTED},
	{"ncclScatter", ROOTED},      {"ncclCommFinalize", LIFE},   {"ncclCommDestroy", LIFE},
	{"ncclCommAbort", LIFE},
};

#define LARGEST 64 /* bytes, of a payload of NCCL */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
NCCL_FUNCTIONS(NVTX_PASS)
#pragma GCC diagnostic pop

static enum form form_of(const char *name)
{
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].form;
	return UNKNOWN;
}

static bool is_nccl(const void *domain)
{
	if (!domain || !atomic_load_explicit(&any_domain, memory_order_relaxed))
		return false;
	for (unsigned i = 0; i < DOMAINS; i++)
		if (atomic_load_explicit(&domains[i], memory_order_relaxed) == domain)
			return true;
	return false;
}

static void add_domain(void *domain)
{
	for (unsigned i = 0; domain && !is_nccl(domain) && i < DOMAINS; i++) {
		void *none = NULL;
		if (!atomic_compare_exchange_strong(&domains[i], &none, domain))
			continue;
		atomic_store(&any_domain, true);
		return;
	}
	if (domain && !is_nccl(domain))
		atomic_store(&missed, true);
}

static void remove_domain(void *domain)
{
	for (unsigned i = 0; i < DOMAINS; i++) {
		void *is = domain;
		atomic_compare_exchange_strong(&domains[i], &is, NULL);
	}
}

/* The name that a handle stands for, NULL if it is not known. */
static const char *name_of(const void *handle)
{
	void *at;
	for (unsigned i = 0; handle && i < STRINGS && (at = atomic_load(&strings[i].handle)) != NULL; i++)
		if (at == handle)
			return strings[i].text;
	return NULL;
}

/* Remembers a name. CUPTI may give a handle once more, for the same text. */
static void add_string(void *handle, const char *text)
{
	sigset_t before;
	size_t length = text ? strnlen(text, NAME_BYTES) : NAME_BYTES;
	if (!handle || length == NAME_BYTES || !ct_here() || name_of(handle))
		return;
	ct_sigmask_block(&before);
	ct_lock(&lock);
	unsigned i = 0;
	while (i < STRINGS && atomic_load(&strings[i].handle))
		i++;
	if (i < STRINGS) {
		memcpy(strings[i].text, text, length + 1);
		atomic_store(&strings[i].handle, handle);
	} else {
		atomic_store(&missed, true);
	}
	ct_unlock(&lock);
	ct_sigmask_restore(&before);
}

/* In a forked child: a thread that is not there any more may have held the lock. */
void ct_nccl_forked(void)
{
	lock = (struct ct_lock){0};
}

/* The name of a range with attributes, NULL where it is no registered one. */
static const char *message(const unsigned char *a)
{
	int32_t type;
	const void *handle;
	memcpy(&type, a + NVTX_MESSAGE_TYPE, sizeof type);
	memcpy(&handle, a + NVTX_MESSAGE, sizeof handle);
	return type == NVTX_REGISTERED ? name_of(handle) : NULL;
}

/* The only extended payload of a range. False if there is none, or several. */
static bool extended(const unsigned char *a, struct nvtx_payload *p)
{
	uint16_t version, size;
	int32_t type, count;
	uint64_t address;
	memcpy(&version, a + NVTX_VERSION_OF, sizeof version);
	memcpy(&size, a + NVTX_SIZE_OF, sizeof size);
	if (version != NVTX_ATTRIBUTES_VERSION || size < NVTX_ATTRIBUTES_MIN)
		return false;
	memcpy(&type, a + NVTX_PAYLOAD_TYPE, sizeof type);
	memcpy(&count, a + NVTX_RESERVED, sizeof count);
	memcpy(&address, a + NVTX_PAYLOAD, sizeof address);
	if (type != NVTX_EXTENDED || count != 1 || address == 0 || address % _Alignof(struct nvtx_payload) != 0)
		return false;
	memcpy(p, (const void *)(uintptr_t)address, sizeof *p);
	return p->data != NULL;
}

static void take_hash(struct ct_nccl_call *r, uint64_t hash)
{
	if (hash >> 32 == 0)
		return;
	r->communicator = hash;
	r->known |= CT_NCCL_COMMUNICATOR;
}

static void take_bytes(struct ct_nccl_call *r, uint64_t bytes)
{
	r->bytes = bytes;
	r->known |= CT_NCCL_BYTES;
}

static void take_ranks(struct ct_nccl_call *r, const int32_t numbers[2])
{
	if (numbers[0] <= 0 || numbers[1] < 0 || numbers[1] >= numbers[0])
		return;
	r->ranks = (uint32_t)numbers[0];
	r->rank = (uint32_t)numbers[1];
	r->known |= CT_NCCL_RANKS;
}

/* Reads what a payload of that form and size begins with. */
static void read_payload(struct ct_nccl_call *r, enum form form, const struct nvtx_payload *p)
{
	static const size_t with_hash[] = {[PLAIN] = 16, [WITH] = 24, [ROOTED] = 24};
	static const size_t without[] = {[PLAIN] = 8, [WITH] = 16, [ROOTED] = 0};
	uint64_t words[2];
	int32_t numbers[2];
	if (p->size < sizeof words[0] || p->size > LARGEST || form == UNKNOWN)
		return;
	memcpy(words, p->data, p->size < sizeof words ? sizeof words[0] : sizeof words);
	if (form == LIFE) {
		if (p->size == 8 || p->size == 24)
			take_hash(r, words[0]);
		if (p->size == 24) {
			memcpy(numbers, &words[1], sizeof numbers);
			take_ranks(r, numbers);
		}
	} else if (p->size >= with_hash[form]) {
		take_hash(r, words[0]);
		take_bytes(r, words[1]);
	} else if (p->size == without[form]) {
		take_bytes(r, words[0]);
	}
}

static void record_call(const char *name, const struct nvtx_payload *p)
{
	struct ct_nccl_call r = {
		.head = {CT_REC_NCCL_CALL, sizeof r}, .tid = ct_tid(), .name = ct_name_number(name)};
	read_payload(&r, form_of(name), p);
	ct_queue_record(&r, sizeof r, NULL, 0, &r.time);
}

/* Says, once in a recording, that something did not fit. */
static void say_missed(void)
{
	if (!atomic_exchange(&said, true))
		ct_queue_note(1, MISSED);
}

/*
 * Sends what is known of a call that begins, or without a name that some are not known. A thread of the program may come when
 * the recording has ended.
 */
void ct_nccl_send(const char *name, const struct nvtx_payload *p)
{
	struct ct_visit v;
	bool in = ct_visit(&v);
	if (in && name)
		record_call(name, p);
	else if (in)
		say_missed();
	ct_visit_end(&v);
}

/* NCCL's ranges are passed on from now on, NULL: no more. */
void ct_nccl_pass(void (*to)(const char *name, const struct nvtx_payload *payload))
{
	atomic_store(&taker, to);
}

static int on_DomainRangePushEx(void *d, const void *a)
{
	struct nvtx_payload p;
	void (*to)(const char *, const struct nvtx_payload *) = atomic_load_explicit(&taker, memory_order_relaxed);
	if (to && ct_here() && atomic_load_explicit(&missed, memory_order_relaxed))
		to(NULL, NULL);
	if (a && to && is_nccl(d) && ct_here()) {
		const char *name = extended(a, &p) ? message(a) : NULL; /* which the size of attributes allows */
		if (name)
			to(name, &p);
	}
	return pass_DomainRangePushEx(d, a);
}

static void *on_DomainRegisterStringA(void *d, const char *text)
{
	void *handle = pass_DomainRegisterStringA(d, text);
	if (is_nccl(d))
		add_string(handle, text);
	return handle;
}

static void *on_DomainCreateA(const char *text)
{
	void *handle = pass_DomainCreateA(text);
	if (text && strcmp(text, "NCCL") == 0)
		add_domain(handle);
	return handle;
}

static void on_DomainDestroy(void *d)
{
	if (is_nccl(d))
		remove_domain(d);
	pass_DomainDestroy(d);
}

const struct ct_nvtx_hook ct_nccl_hooks[CT_NCCL_FUNCTIONS] = {
#define OURS(module, number, function, result, params, args, none) \
	{NVTX_##module, number, (nvtx_fn)on_##function, &next[I_##function]},
	NCCL_FUNCTIONS(OURS)
#undef OURS
};
