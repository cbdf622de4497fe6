/*
 * The entry points of NVTX. NVTX in the program loads the library that
 * NVTX_INJECTION64_PATH names and gives it the table of its functions, once for each
 * module that has NVTX compiled in. CUPTI can fill the table in, but where libcupti
 * lies is not known when the program starts: the variable names this library, which
 * passes the table on. main.c says when CUDA starts. No function of NVTX may be called
 * here. nccl.c has functions that stand before CUPTI's, and range.c where recording is limited to a range; where both
 * have one for the same entry, the one that is put there later is called first.
 *
 * A program may mark ranges before it touches CUDA. The recorder is asked for libcupti
 * then; when there is none yet, NVTX is left without functions, which costs nothing,
 * and the table is passed on when CUDA has started.
 *
 * In a process that waits for a recorder, functions of ours alone are in the table (standby.c).
 */
#include "nvtx.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base.h"
#include "load.h"
#include "meet.h"
#include "nccl.h"
#include "range.h"
#include "standby.h"
#include "wire.h"

#define TABLES 64
#define LOCATE_WAIT CT_SECOND

typedef int (*init_fn)(void *get_export_table);
enum which { NVTX3, NVTX2 };
static const char *const init_names[] = {[NVTX3] = "InitializeInjectionNvtx2", [NVTX2] = "InitializeInjectionNvtx"};

/* What NVTX calls at first use. 1 is success; after 0 NVTX switches itself off. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx(void *get_export_table);

static struct ct_lock lock;
static enum { FRESH, STARTING, ON, OFF } stage;
static struct table {
	void *get_export_table;
	void *module; /* where it lies: it may be unloaded before CUDA starts */
	enum which which;
	init_fn passed_to;
} tables[TABLES];
static unsigned table_count;

static void *module_of(void *address)
{
	Dl_info info;
	return dladdr(address, &info) ? info.dli_fbase : NULL;
}

static init_fn as_function(void *symbol)
{
	init_fn f;
	memcpy(&f, &symbol, sizeof f);
	return f;
}

/* Remembers a table; NULL when there are too many, or nobody wants any. */
static struct table *enter(enum which which, void *get_export_table)
{
	void *module = module_of(get_export_table);
	ct_lock(&lock);
	struct table *t = stage != OFF && table_count < TABLES ? &tables[table_count++] : NULL;
	if (t)
		*t = (struct table){.get_export_table = get_export_table, .module = module, .which = which};
	ct_unlock(&lock);
	return t;
}

/* Where a program keeps the pointer to a function; NULL if it has none. */
static nvtx_fn *slot(void *get_export_table, const struct ct_nvtx_hook *h)
{
	nvtx_export_fn export;
	memcpy(&export, &get_export_table, sizeof export);
	const struct nvtx_callbacks *c = export ? export(NVTX_TABLE_CALLBACKS) : NULL;
	nvtx_fn **table = NULL;
	uint32_t count = 0;
	if (!c || c->size < sizeof *c || !c->get_module_table(h->module, &table, &count) || !table)
		return NULL;
	return h->number < count ? table[h->number] : NULL;
}

/* CUPTI is about to take a program's table: was becomes what the table has. */
static void before(void *get_export_table, const struct ct_nvtx_hook *hooks, unsigned count, nvtx_fn *was)
{
	for (unsigned i = 0; i < count; i++) {
		nvtx_fn *at = slot(get_export_table, &hooks[i]);
		was[i] = at ? *at : NULL;
	}
}

/* CUPTI has taken it: puts our functions before CUPTI's. A function that CUPTI left alone is the program's own beginning of NVTX. */
static void after(void *get_export_table, const struct ct_nvtx_hook *hooks, unsigned count, const nvtx_fn *was)
{
	for (unsigned i = 0; i < count; i++) {
		nvtx_fn *at = slot(get_export_table, &hooks[i]);
		if (!at || *at == hooks[i].function)
			continue;
		if (*at != was[i])
			atomic_store(hooks[i].next, *at);
		*at = hooks[i].function;
	}
}

/* Passes a table on, and puts our functions before CUPTI's. */
static bool pass_hooked(void *get_export_table, init_fn f)
{
	nvtx_fn range[CT_RANGE_FUNCTIONS], nccl[CT_NCCL_FUNCTIONS];
	bool limited = ct_range_wanted();
	before(get_export_table, ct_nccl_hooks, CT_NCCL_FUNCTIONS, nccl);
	if (limited)
		before(get_export_table, ct_range_hooks, CT_RANGE_FUNCTIONS, range);
	bool taken = f(get_export_table) != 0;
	if (taken)
		after(get_export_table, ct_nccl_hooks, CT_NCCL_FUNCTIONS, nccl);
	if (limited && taken) /* is called first: a call of NCCL may begin recording */
		after(get_export_table, ct_range_hooks, CT_RANGE_FUNCTIONS, range);
	return taken;
}

/* Passes a table on, once to each libcupti; early gives way to the one in use. */
static bool pass(struct table *t, init_fn f, bool early)
{
	ct_lock(&lock);
	bool mine = f && t->passed_to != f && !(early && stage != FRESH && stage != STARTING);
	if (mine)
		t->passed_to = f;
	ct_unlock(&lock);
	if (!mine)
		return true;
	return t->which == NVTX3 ? pass_hooked(t->get_export_table, f) : f(t->get_export_table) != 0;
}

/* A function of a libcupti that the recorder knows of; *asked says whether there is a recorder. */
static init_fn locate(enum which which, bool *asked)
{
	struct ct_frame request = {.type = CT_MSG_LOCATE};
	struct ct_candidate list[CT_CANDIDATES_MAX];
	uint64_t deadline = ct_now() + LOCATE_WAIT;
	uint32_t length = 0;
	int fd = ct_rehearsed() ? ct_connect(deadline) : -1;
	if (fd < 0)
		return NULL;
	*asked = true;
	init_fn f = NULL;
	struct ct_go *go =
		ct_send_wait(fd, &request, sizeof request, deadline) ? ct_go_receive(fd, &length, NULL, 0, &deadline) : NULL;
	close(fd);
	if (go) {
		ct_range_choose(ct_go_range(go, length), go->range_len, go->first_step, go->steps);
		unsigned char *at = (unsigned char *)(go + 1);
		uint32_t left = length - (uint32_t)sizeof *go;
		unsigned count = ct_go_candidates(&at, &left, go->candidates, list);
		f = as_function(ct_load_early(init_names[which], list, count));
	}
	ct_free(go, length);
	return f;
}

/* In a forked child: a thread that is not there any more may have held the lock. */
void ct_nvtx_forked(void)
{
	lock = (struct ct_lock){0};
	ct_range_forked();
	ct_nccl_forked();
	ct_standby_forked();
}

/* Puts the functions of standby.c into a program's table. */
static int stand_by(void *get_export_table)
{
	for (unsigned i = 0; i < CT_STANDBY_FUNCTIONS; i++) {
		nvtx_fn *at = slot(get_export_table, &ct_standby_hooks[i]);
		if (at)
			*at = ct_standby_hooks[i].function;
	}
	return 1;
}

/* NVTX begins in a process that waits for a recorder. NVTX 2 stays without functions. */
static bool begin_standby(enum which which, void *get_export_table)
{
	static enum { UNKNOWN, READY, WITHOUT } standby;
	ct_lock(&lock);
	if (which == NVTX3 && standby == UNKNOWN)
		standby = ct_standby_start() ? READY : WITHOUT;
	bool ready = which == NVTX3 && standby == READY;
	ct_unlock(&lock);
	return ready && pass_hooked(get_export_table, stand_by);
}

static int initialize(enum which which, void *get_export_table)
{
	if (getauxval(AT_SECURE) || ct_forked() || !ct_fork_watch(ct_nvtx_forked))
		return 0;
	if (ct_armed())
		return begin_standby(which, get_export_table);
	struct table *t = enter(which, get_export_table);
	if (!t)
		return 0;
	ct_lock(&lock);
	int now = stage;
	ct_unlock(&lock);
	if (now == ON)
		return pass(t, as_function(ct_load_symbol(init_names[which])), false);
	if (now != FRESH) /* passed on when CUDA has started */
		return now == STARTING;
	bool asked = false;
	init_fn f = locate(which, &asked);
	return asked && pass(t, f, true);
}

int InitializeInjectionNvtx2(void *get_export_table)
{
	return initialize(NVTX3, get_export_table);
}

int InitializeInjectionNvtx(void *get_export_table)
{
	return initialize(NVTX2, get_export_table);
}

/* Whether a table can be passed on now: CUDA has started, and NVTX goes to the libcupti in use, or the process waits for a recorder. */
bool ct_nvtx_on(void)
{
	if (ct_armed())
		return true;
	ct_lock(&lock);
	bool on = stage == ON;
	ct_unlock(&lock);
	return on;
}

/* CUDA is starting. */
void ct_nvtx_begin(void)
{
	ct_lock(&lock);
	stage = STARTING;
	ct_unlock(&lock);
}

/* CUDA has started; wanted says whether NVTX goes to the libcupti in use. */
void ct_nvtx_end(bool wanted)
{
	ct_lock(&lock);
	stage = wanted ? ON : OFF;
	unsigned count = wanted ? table_count : 0;
	ct_unlock(&lock);
	for (unsigned i = 0; i < count; i++) {
		struct table *t = &tables[i];
		if (t->module && module_of(t->get_export_table) == t->module)
			pass(t, as_function(ct_load_symbol(init_names[t->which])), false);
	}
}
