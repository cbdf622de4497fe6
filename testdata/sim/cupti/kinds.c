#include "internal.h"

static _Atomic uint8_t kinds[CUPTI_KIND_COUNT];
static _Atomic uint8_t apis[SIM_RUNTIME + 1][CBIDS];
static _Atomic int apis_on;

/* The kinds that CUPTI 13 knows and that can be switched on, with the sizes of their records.
 * Kinds that the simulation never produces can be switched on, but no record follows: their size is 0. */
static const struct {
	bool known;
	uint16_t size;
} table[CUPTI_KIND_COUNT] = {
	[CUPTI_KIND_MEMCPY] = {true, sizeof(CUptiMemcpy)},
	[CUPTI_KIND_MEMSET] = {true, sizeof(CUptiMemset)},
	[CUPTI_KIND_KERNEL] = {true, sizeof(CUptiKernel)},
	[CUPTI_KIND_DRIVER] = {true, sizeof(CUptiApi)},
	[CUPTI_KIND_RUNTIME] = {true, sizeof(CUptiApi)},
	[CUPTI_KIND_DEVICE] = {true, sizeof(CUptiDevice)},
	[CUPTI_KIND_CONTEXT] = {true, sizeof(CUptiContext)},
	[CUPTI_KIND_CONCURRENT_KERNEL] = {true, sizeof(CUptiKernel)},
	[CUPTI_KIND_NAME] = {true, sizeof(CUptiName)},
	[CUPTI_KIND_MARKER] = {true, sizeof(CUptiMarker)},
	[CUPTI_KIND_MARKER_DATA] = {true, 0},
	[CUPTI_KIND_OVERHEAD] = {true, sizeof(CUptiOverhead)},
	[20] = {true, 0}, /* ENVIRONMENT */
	[CUPTI_KIND_MEMCPY2] = {true, sizeof(CUptiMemcpyPeer)},
	[26] = {true, 0}, /* FUNCTION */
	[27] = {true, 0}, /* MODULE */
	[28] = {true, 0}, /* DEVICE_ATTRIBUTE */
	[36] = {true, 0}, /* CUDA_EVENT */
	[CUPTI_KIND_STREAM] = {true, sizeof(CUptiStream)},
	[38] = {true, 0}, /* SYNCHRONIZATION */
	[39] = {true, 0}, /* EXTERNAL_CORRELATION */
	[47] = {true, 0}, /* OPENMP */
	[48] = {true, 0}, /* INTERNAL_LAUNCH_API */
	[CUPTI_KIND_MEMORY] = {true, 0},
	[CUPTI_KIND_MEMORY2] = {true, 0},
	[CUPTI_KIND_MEMORY_POOL] = {true, sizeof(CUptiMemoryPool)},
	[51] = {true, 0}, /* GRAPH_TRACE */
	[52] = {true, 0}, /* JIT */
};

/* The size of a kind's records; 0 for a kind that is never written. */
size_t cupti_record_size(uint32_t kind)
{
	return kind < CUPTI_KIND_COUNT ? table[kind].size : 0;
}

/* When each kind was on, of late. */
#define SPELLS 1024
struct spell {
	_Atomic uint64_t since, until;
};
static struct spell spells[CUPTI_KIND_COUNT][SPELLS];
static atomic_uint spell_count[CUPTI_KIND_COUNT];

/*
 * Whether work gets a record depends on the time of its submission. A kernel that waits
 * for the GPU when its kind is switched off still gets one (H200, CUPTI 13.0.1).
 */
bool cupti_kind_at(uint32_t kind, uint64_t submit)
{
	unsigned n = atomic_load(&spell_count[kind]);
	for (unsigned i = 0; i < n && i < SPELLS; i++) {
		struct spell *s = &spells[kind][(n - 1 - i) % SPELLS];
		if (submit >= atomic_load(&s->since))
			return submit < atomic_load(&s->until);
	}
	return false;
}

static void begin_spell(uint32_t kind)
{
	struct spell *s = &spells[kind][atomic_load(&spell_count[kind]) % SPELLS];
	atomic_store(&s->since, sim_now());
	atomic_store(&s->until, UINT64_MAX);
	atomic_fetch_add(&spell_count[kind], 1);
}

static void end_spell(uint32_t kind)
{
	atomic_store(&spells[kind][(atomic_load(&spell_count[kind]) - 1) % SPELLS].until, sim_now());
}

/*
 * Switched on long after cuInit (H200, CUPTI 13.0.1): no record of a single function that is switched on;
 * with all of the driver's on, a record of each launch alone, under another function's ID and inside calls of
 * the runtime, too; no records of devices and contexts that exist.
 */
static atomic_int late = -1;

static void begins(void)
{
	int unknown = -1;
	atomic_compare_exchange_strong(&late, &unknown, cupti_hook()->started());
}

bool cupti_late(void)
{
	return atomic_load_explicit(&late, memory_order_relaxed) == 1;
}

bool cupti_kind(uint32_t kind)
{
	return atomic_load_explicit(&kinds[kind], memory_order_relaxed);
}

bool cupti_api_wanted(uint32_t domain, uint32_t cbid)
{
	return atomic_load_explicit(&apis[domain][cbid % CBIDS], memory_order_relaxed);
}

void cupti_reattach(void)
{
	bool on = cupti_subscribed() || atomic_load(&apis_on) > 0;
	for (uint32_t i = 0; i < CUPTI_KIND_COUNT; i++)
		on |= cupti_kind(i);
	cupti_attach(on);
}

static void set_api(uint32_t domain, uint32_t cbid, uint8_t on)
{
	atomic_fetch_add(&apis_on, (int)on - (int)atomic_exchange(&apis[domain][cbid], on));
}

static void set_kind(uint32_t kind, uint8_t on)
{
	if (on && !cupti_kind(kind))
		begin_spell(kind);
	else if (!on && cupti_kind(kind))
		end_spell(kind);
	atomic_store(&kinds[kind], on);
	if (kind == CUPTI_KIND_DRIVER || kind == CUPTI_KIND_RUNTIME)
		for (uint32_t i = 0; i < CBIDS; i++)
			set_api(kind == CUPTI_KIND_DRIVER ? SIM_DRIVER : SIM_RUNTIME, i, on);
}

void cupti_kinds_clear(void)
{
	for (uint32_t i = 0; i < CUPTI_KIND_COUNT; i++)
		set_kind(i, 0);
}

/*
 * Waits for a lock that threads which launch take again and again. It is not fair: who waits is woken too late, unless
 * none takes it for a while (H200, CUPTI 13.0.1: for ever beside eight threads that launch without pause).
 */
void cupti_await_lock(void)
{
	struct sim_hook *h = cupti_hook();
	uint64_t quiet = sim_config()->starves * 1000, since = sim_now(), entered = 0, now;
	for (; quiet && cupti_late() && sim_now() - since < quiet; entered = now)
		if ((now = atomic_load(&h->entered)) != entered || atomic_load(&h->inside) > 0)
			since = sim_now();
}

static CUptiResult change(uint32_t kind, bool on)
{
	if (kind >= CUPTI_KIND_COUNT || !table[kind].known)
		return kind == CUPTI_KIND_EVENT || kind == CUPTI_KIND_METRIC ? CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED
									     : CUPTI_ERROR_NOT_COMPATIBLE;
	if (!cupti_hook() || cupti_forked())
		return CUPTI_ERROR_NOT_INITIALIZED;
	begins();
	cupti_await_lock();
	set_kind(kind, on);
	cupti_reattach();
	if (on)
		cupti_announce(kind);
	return CUPTI_SUCCESS;
}

static CUptiResult change_api(uint32_t domain, uint32_t cbid, uint8_t on)
{
	if (!cupti_name(domain, cbid))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!cupti_hook() || cupti_forked())
		return CUPTI_ERROR_NOT_INITIALIZED;
	begins();
	if (!cupti_late())
		set_api(domain, cbid, on != 0);
	cupti_reattach();
	return CUPTI_SUCCESS;
}

/* Whether kernels have records now. No function of CUPTI: programs of this stack call it. */
CUPTI_EXPORT int cudasim_kernels_recorded(void);

CUPTI_EXPORT int cudasim_kernels_recorded(void)
{
	return cupti_kind(CUPTI_KIND_CONCURRENT_KERNEL);
}

CUPTI(cuptiActivityEnable, (uint32_t kind))
{
	return change(kind, true);
}

CUPTI(cuptiActivityDisable, (uint32_t kind))
{
	return change(kind, false);
}

CUPTI(cuptiActivityEnableDriverApi, (uint32_t cbid, uint8_t on))
{
	return change_api(SIM_DRIVER, cbid, on);
}

CUPTI(cuptiActivityEnableRuntimeApi, (uint32_t cbid, uint8_t on))
{
	return change_api(SIM_RUNTIME, cbid, on);
}
