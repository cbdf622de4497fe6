/*
 * Another CUPTI client in the program, PyTorch's profiler for instance. CUPTI gives the client that registers last
 * every record from then on, and the buffers that it got from an earlier one, and such clients throw away what is in
 * them: PyTorch's profiler lost three quarters of its first profile so. So we leave before it registers, or, where it
 * was not met, as soon as it is noticed. Nothing else of the other client's may be touched.
 */
#include "client.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base.h"
#include "calibration.h"
#include "calls.h"
#include "enable.h"
#include "flush.h"
#include "link.h"
#include "load.h"
#include "memory.h"
#include "pool.h"
#include "queue.h"
#include "walk.h"

/*
 * Before it is a client. In modules that need libcupti, the addresses of the two functions with which a
 * client begins are replaced by those of ours. They have the control thread switch
 * everything off and flush, wait for it, and go on to CUPTI's function.
 *
 * Only a table of addresses of the dynamic linker's is written to, one word for each function,
 * and only where it holds CUPTI's function or leads to the linker. A client that asks dlsym for
 * these functions is not met here. One that subscribes is: it would get an error while we have the subscription. So the
 * addresses of those functions that have to do with it are replaced in libcupti's own table of symbols, too.
 */
#define LEAVE_WAIT CT_SECOND     /* for the control thread, which may be flushing */
#define NAME_START "libcupti.so"

#if defined(__x86_64__)
#define IS_ADDRESS(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#else
#define IS_ADDRESS(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#endif

static CT_KEPT struct ct_cupti cupti; /* a program may keep an address of ours that dlsym has given it */
static CT_KEPT atomic_uint symbols_ours; /* bits of hooks: a client that asks dlsym for the function gets ours */
static atomic_bool over; /* the functions are CUPTI's again */
static unsigned long long loads; /* by the dynamic linker's count */
static struct ct_question leaving;

static void leave(void)
{
	if (!ct_here() || !ct_come_in())
		return;
	int before = errno;
	uint64_t deadline = ct_now() + LEAVE_WAIT;
	uint32_t number = ct_reached(CT_ENDED) ? 0 : ct_ask(&leaving);
	while (number != 0 && ct_unanswered(&leaving, number) && !ct_reached(CT_ENDED) && ct_now() < deadline)
		ct_await_answer(&leaving, number);
	ct_go_out();
	errno = before;
}

static ct_result register_callbacks(ct_request_fn requested, ct_complete_fn completed)
{
	leave();
	return cupti.register_callbacks(requested, completed);
}

static ct_result register_timestamp(ct_timestamp_fn timestamp)
{
	leave();
	return cupti.register_timestamp(timestamp);
}

/* CUPTI's functions. Behind a recording they may be those of a later one, by another copy of this library, which is to be met. */
static struct ct_cupti current(void)
{
	struct ct_cupti now = cupti;
	return atomic_load(&over) && atomic_load(&symbols_ours) == 0 && ct_load_again(&now) ? now : cupti;
}

static ct_result subscribe(void **subscriber, ct_callback_fn f, void *user)
{
	ct_memory_leave(false);
	ct_result r = current().subscribe(subscriber, f, user);
	if (r != 0)
		ct_memory_return();
	return r;
}

static ct_result subscribe_v2(void **subscriber, ct_callback_fn f, void *user, void *params)
{
	ct_memory_leave(false);
	ct_result r = current().subscribe_v2(subscriber, f, user, params);
	if (r != 0)
		ct_memory_return();
	return r;
}

static ct_result unsubscribe(void *subscriber)
{
	ct_result r = current().unsubscribe(subscriber);
	if (r == 0)
		ct_memory_return();
	return r;
}

/* It ends every subscription. */
static ct_result finalize(void)
{
	ct_memory_leave(true);
	return current().finalize();
}

/* On the control thread: whether a client waits for us to leave. */
bool ct_client_waits(void)
{
	return ct_unanswered(&leaving, ct_asked(&leaving));
}

/* We have left. */
void ct_client_answer(void)
{
	ct_answer(&leaving, ct_asked(&leaving));
}

/* The functions with which a client begins, then those of the subscription. */
#define HOOKS 6
#define SUBSCRIPTION 2

static struct hook {
	const char *name;
	uintptr_t theirs, ours; /* theirs is 0 in a release without the function */
} hooks[HOOKS];

/* What the dynamic linker knows of a module that needs libcupti. */
struct module {
	uintptr_t base, code, code_end, constant, constant_end; /* the last two: made read-only after linking */
	const ElfW(Sym) *symbols;
	const char *strings;
	const ElfW(Rela) *tables[2];
	size_t counts[2];
	size_t names; /* bytes of strings */
	bool ours; /* it needs the libcupti in use by its name */
};

/* The dynamic linker of glibc adds the base to these addresses, that of other C libraries leaves them. */
static uintptr_t absolute(const struct module *m, uintptr_t address)
{
	return address < m->base ? m->base + address : address;
}

static const ElfW(Dyn) *read_headers(struct module *m, const struct dl_phdr_info *info)
{
	const ElfW(Dyn) *dynamic = NULL;
	m->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)from;
		if (p->p_type == PT_GNU_RELRO)
			m->constant = from, m->constant_end = from + p->p_memsz;
		if (p->p_type == PT_LOAD && p->p_flags & PF_X)
			m->code = from, m->code_end = from + p->p_memsz;
	}
	return dynamic;
}

static void read_dynamic(struct module *m, const ElfW(Dyn) *d)
{
	size_t relative = 0;
	for (; d->d_tag != DT_NULL; d++) {
		uintptr_t value = d->d_un.d_val, address = absolute(m, d->d_un.d_ptr);
		switch (d->d_tag) {
		case DT_SYMTAB:
			m->symbols = (const void *)address;
			break;
		case DT_STRTAB:
			m->strings = (const void *)address;
			break;
		case DT_STRSZ:
			m->names = value;
			break;
		case DT_RELA:
			m->tables[0] = (const void *)address;
			break;
		case DT_RELASZ:
			m->counts[0] = value / sizeof(ElfW(Rela));
			break;
		case DT_RELACOUNT:
			relative = value;
			break;
		case DT_JMPREL:
			m->tables[1] = (const void *)address;
			break;
		case DT_PLTRELSZ:
			m->counts[1] = value / sizeof(ElfW(Rela));
			break;
		}
	}
	if (m->tables[0] && relative <= m->counts[0]) { /* those without a symbol come first */
		m->tables[0] += relative;
		m->counts[0] -= relative;
	}
}

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static bool needs_cupti(struct module *m, const ElfW(Dyn) *d)
{
	bool needs = false;
	for (; m->strings && m->symbols && d->d_tag != DT_NULL; d++) {
		const char *name = m->strings + d->d_un.d_val;
		if (d->d_tag != DT_NEEDED || strncmp(name, NAME_START, sizeof NAME_START - 1) != 0)
			continue;
		needs = true;
		m->ours = m->ours || strcmp(name, file_name(ct_load_path())) == 0;
	}
	return needs;
}

static bool protect(uintptr_t page, size_t size, int access)
{
	return syscall(SYS_mprotect, page, size, access) == 0;
}

/* One word, which other threads may read meanwhile. False where the kernel does not allow it. */
static bool replace(uintptr_t slot, uintptr_t ours, int access)
{
	size_t size = getauxval(AT_PAGESZ);
	uintptr_t page = slot & ~(size - 1);
	bool constant = !(access & PROT_WRITE);
	if (constant && !protect(page, size, access | PROT_WRITE))
		return false;
	atomic_store((_Atomic uintptr_t *)slot, ours);
	if (constant)
		protect(page, size, access);
	return true;
}

/* The slot leads to CUPTI's function, or, before the first call, to the linker, by code of the module's own. */
static bool leads_to(const struct module *m, uintptr_t value, uintptr_t theirs)
{
	return value == theirs || (m->ours && value >= m->code && value < m->code_end);
}

static void look_at(const struct module *m, const ElfW(Rela) *r, const struct hook *h)
{
	const char *name = m->strings + m->symbols[ELF64_R_SYM(r->r_info)].st_name;
	uintptr_t slot = m->base + r->r_offset;
	if (!IS_ADDRESS(ELF64_R_TYPE(r->r_info)) || h->theirs == 0 || strcmp(name, h->name) != 0)
		return;
	if (over ? *(const uintptr_t *)slot == h->ours : leads_to(m, *(const uintptr_t *)slot, h->theirs))
		replace(slot, over ? h->theirs : h->ours, PROT_READ | (slot >= m->constant && slot < m->constant_end ? 0 : PROT_WRITE));
}

/* Where the bytes of the segment end that has an address, and how it is mapped; 0 without one. */
static uintptr_t segment_end(const struct dl_phdr_info *info, uintptr_t at, int *access)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + p->p_vaddr;
		*access = (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) | (p->p_flags & PF_X ? PROT_EXEC : 0);
		if (p->p_type == PT_LOAD && at >= from && at < from + p->p_filesz)
			return *access & PROT_READ ? from + p->p_filesz : 0;
	}
	return 0;
}

/*
 * Replaces the address of a function in the table of symbols of libcupti, or ours in it. The symbols have no count here: a
 * symbol is one that has CUPTI's address and the name. Their names stand behind them, unless patchelf has moved those away.
 */
static void replace_symbol(const struct module *m, const struct dl_phdr_info *info, const struct hook *h)
{
	int access = 0;
	unsigned bit = 1u << (h - hooks);
	uintptr_t last = segment_end(info, (uintptr_t)m->symbols, &access), names = (uintptr_t)m->strings;
	if (names > (uintptr_t)m->symbols && names < last)
		last = names;
	uintptr_t from = (over ? h->ours : h->theirs) - m->base, to = (over ? h->theirs : h->ours) - m->base;
	for (const ElfW(Sym) *s = m->symbols; m->names > 0 && (uintptr_t)(s + 1) <= last; s++)
		if (s->st_value == from && s->st_name < m->names && strcmp(m->strings + s->st_name, h->name) == 0 &&
		    replace((uintptr_t)&s->st_value, to, access))
			symbols_ours = over ? symbols_ours & ~bit : symbols_ours | bit;
}

static int hook_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size, (void)arg;
	struct module m = {0};
	const ElfW(Dyn) *dynamic = read_headers(&m, info);
	if (!dynamic)
		return 0;
	read_dynamic(&m, dynamic);
	for (unsigned h = SUBSCRIPTION; h < HOOKS; h++)
		if (hooks[h].theirs >= m.code && hooks[h].theirs < m.code_end)
			replace_symbol(&m, info, &hooks[h]);
	if (!needs_cupti(&m, dynamic))
		return 0;
	for (unsigned t = 0; t < 2; t++)
		for (size_t i = 0; m.tables[t] && i < m.counts[t]; i++)
			for (unsigned h = 0; h < HOOKS; h++)
				look_at(&m, &m.tables[t][i], &hooks[h]);
	return 0;
}

/* For the control thread now and then: modules may have come. */
void ct_client_poll(void)
{
	unsigned long long count = ct_load_counts().loads;
	if (count == loads)
		return;
	loads = count;
	dl_iterate_phdr(hook_module, NULL);
}

/* Called once, when records are on. */
void ct_client_start(const struct ct_cupti *api)
{
	if (symbols_ours == 0) /* else api may have functions of ours */
		cupti = *api;
	const struct hook list[] = {
		{"cuptiActivityRegisterCallbacks", (uintptr_t)cupti.register_callbacks, (uintptr_t)register_callbacks},
		{"cuptiActivityRegisterTimestampCallback", (uintptr_t)cupti.register_timestamp, (uintptr_t)register_timestamp},
		[SUBSCRIPTION] = {"cuptiSubscribe", (uintptr_t)cupti.subscribe, (uintptr_t)subscribe},
		{"cuptiSubscribe_v2", (uintptr_t)cupti.subscribe_v2, (uintptr_t)subscribe_v2},
		{"cuptiUnsubscribe", (uintptr_t)cupti.unsubscribe, (uintptr_t)unsubscribe},
		{"cuptiFinalize", (uintptr_t)cupti.finalize, (uintptr_t)finalize},
	};
	_Static_assert(sizeof list == sizeof hooks, "HOOKS");
	memcpy(hooks, list, sizeof list);
	ct_client_poll();
	unsigned met = 0;
	for (unsigned h = SUBSCRIPTION; h < HOOKS; h++)
		met += hooks[h].theirs == 0 || symbols_ours & 1u << h;
	if (met == HOOKS - SUBSCRIPTION)
		ct_memory_start(&cupti);
	else
		ct_memory_refuse();
}

/* The threads of the recording have ended: a client that comes now need not wait, and the next recording replaces the functions. */
void ct_client_end(void)
{
	over = true;
	if (hooks[0].ours)
		dl_iterate_phdr(hook_module, NULL);
}

/*
 * When it has taken the records, of which CUPTI tells nobody. Where the
 * recorder has a probe on the call that registers, the recorder says so at once; without, it has the
 * control thread ask here after each flush that is due, and before an end. When nothing has come for a
 * while, a call is made that must give a record, and hence a request for a buffer or a
 * buffer.
 *
 * From CUDA 13 on a thread has a buffer of its own, so that record depends on nothing
 * that the program does. In older releases a kernel that runs for long may keep the
 * record back, and nothing is concluded there. Where CUPTI was switched on late, such a call has none: there the
 * flush itself has one, of what it costs, while the records of work are on.
 */
#define PROOFS 3 /* calls without a record before it is believed; records of flushes before they are counted on */

static uint64_t last_seen;
static unsigned missed;

static uint64_t seen(void)
{
	return ct_delivered_buffers() + ct_pool_requests();
}

/* False when no such call could be made. */
static bool call_with_record(const struct ct_cupti *api)
{
	bool on = ct_switched_late() || (ct_switch_is_on() && ct_wanted_name(DOMAIN_DRIVER, CBID_CUDEVICEGETCOUNT) != 0);
	if (!on && api->enable_driver_api(CBID_CUDEVICEGETCOUNT, 1) != 0)
		return false;
	ct_flush_begin();
	bool made = ct_load_count_devices();
	if (!on)
		api->enable_driver_api(CBID_CUDEVICEGETCOUNT, 0);
	ct_flush_now(CT_FINISHED);
	return made;
}

static bool can_tell(const struct ct_cupti *api)
{
	bool told = ct_switched_late() ? ct_switch_is_on() && ct_delivered_flushes() >= PROOFS : api->enable_driver_api != NULL;
	return ct_recording()->watch_clients && api->version >= CUPTI_V13_0 && told;
}

/* True when CUPTI's records go to somebody else. */
bool ct_client_present(const struct ct_cupti *api)
{
	if (!can_tell(api))
		return false;
	if (seen() == last_seen && !call_with_record(api))
		return false;
	uint64_t now = seen();
	missed = now == last_seen ? missed + 1 : 0;
	last_seen = now;
	return missed >= PROOFS;
}

/* Likewise at once, before an end: a client that came just now has not been missed yet. */
bool ct_client_present_now(const struct ct_cupti *api)
{
	for (unsigned i = 0; i < PROOFS && can_tell(api); i++) {
		uint64_t before = seen();
		if (!call_with_record(api) || seen() != before)
			return false;
	}
	return can_tell(api);
}

static void nothing(void *user, uint32_t domain, uint32_t cbid, const void *data)
{
	(void)user, (void)domain, (void)cbid, (void)data;
}

/*
 * Whether CUPTI's time is the processor's counter. Kineto registers that clock in its first profile, also where it takes no
 * subscription (with KINETO_USE_DAEMON, and in sources from August 2026 on). No other clock is near it.
 */
static bool has_kineto_clock(const struct ct_cupti *api)
{
#ifdef __x86_64__
	const uint64_t slack = 1u << 20; /* more than two processors' counters differ by */
	uint64_t time = 0, before = __builtin_ia32_rdtsc() - slack;
	return api->get_timestamp(&time) == 0 && time - before <= __builtin_ia32_rdtsc() + slack - before;
#else
	(void)api;
	return false;
#endif
}

/*
 * Whether a client has been there for long, before anything of CUPTI's is touched. Profilers hold the
 * one subscription, which is taken here and given back at once.
 */
bool ct_client_before(const struct ct_cupti *api)
{
	void *subscriber = NULL;
	if (has_kineto_clock(api))
		return true;
	ct_link_switching(true);
	bool there = api->subscribe(&subscriber, nothing, NULL) != 0;
	if (!there)
		api->unsubscribe(subscriber);
	ct_link_switching(false);
	return there;
}

/*
 * Another client has the records: with its clock restored, nothing of CUPTI is touched from now on, so that the
 * other client goes on as if we were not there, and is not flushed by us at the end when it
 * may be gone.
 */
void ct_client_leave(void)
{
	static const char words[] = "another CUPTI client in the program has taken over CUPTI's records";
	struct ct_status status = {.state = CT_STATUS_TAKEN, .text_len = sizeof words - 1};
	ct_switch_leave();
	ct_memory_end();
	ct_walk_end();
	ct_pool_leave();
	ct_calibration_leave(ct_recording()->api);
	ct_queue_message(CT_MSG_STATUS, &status, sizeof status, words, sizeof words - 1);
}
