/*
 * What happens to a buffer that CUPTI has filled: each record becomes one of a BATCH, and the buffer goes back to the
 * pool. CUPTI calls ct_complete on a thread of its own or under a flush, with several buffers at once. CUPTI is asked
 * for the next record and for the number of dropped ones; no other function of CUPTI may be called here.
 *
 * There is one function a kind; kinds.def says which. Offsets
 * are those of cupti_abi.h; nothing behind the end of the buffer may be read, whatever
 * kind the record names.
 */
#include "translate.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base.h"
#include "calibration.h"
#include "calls.h"
#include "flush.h"
#include "link.h"
#include "pool.h"
#include "python.h"
#include "torch.h"
#include "queue.h"
#include "walk.h"

/* The records of one buffer, on their way to the queue. */
struct batch {
	struct ct_chunk *chunk;
	struct ct_counts counts;
	uint64_t now;
	uint64_t last;    /* when the latest record with a time began, or the last buffer came */
	uint32_t version; /* of CUPTI */
	size_t left;      /* bytes from the record to the end of its buffer */
	uint32_t target;  /* work of calls up to this correlation ID is awaited */
	struct ct_delivery delivery;
	struct ct_loss lost[CT_LOST_CAUSES];
	struct {
		const char *text;
		uint32_t id;
	} names[64]; /* numbers of names seen in this buffer, by pointer */
};

static uint16_t u16(const unsigned char *r, size_t at)
{
	uint16_t v;
	memcpy(&v, r + at, sizeof v);
	return v;
}

static uint32_t u32(const unsigned char *r, size_t at)
{
	uint32_t v;
	memcpy(&v, r + at, sizeof v);
	return v;
}

static uint64_t u64(const unsigned char *r, size_t at)
{
	uint64_t v;
	memcpy(&v, r + at, sizeof v);
	return v;
}

static const char *text(const unsigned char *r, size_t at)
{
	const char *v;
	memcpy(&v, r + at, sizeof v);
	return v;
}

static void batch_lost(struct batch *b, enum ct_lost_cause cause, uint64_t time)
{
	uint64_t at = time ? time : b->now;
	ct_loss_add(&b->lost[cause], &(struct ct_loss){.count = 1, .from = at, .to = at});
}

/* Room for a record in the batch. Without room NULL, and the record counts as lost. */
static unsigned char *room(struct batch *b, uint32_t size, uint64_t time)
{
	if (b->chunk && CT_CHUNK_DATA - b->chunk->used < size) {
		ct_queue_push(b->chunk);
		b->chunk = NULL;
	}
	if (!b->chunk)
		b->chunk = ct_queue_chunk();
	if (!b->chunk) {
		batch_lost(b, CT_LOST_QUEUE, time);
		return NULL;
	}
	unsigned char *at = b->chunk->data + b->chunk->used;
	b->chunk->used += size;
	return at;
}

/* Appends a finished record to the batch. */
static void append(struct batch *b, const void *record, uint32_t size, uint64_t time)
{
	unsigned char *at = room(b, size, time);
	if (at)
		memcpy(at, record, size);
}

/*
 * The number of a name. Pointers seen before in this buffer are not looked at
 * again: their text cannot have changed while CUPTI waits for us.
 */
static uint32_t name(struct batch *b, const char *s)
{
	if (!s)
		return 0;
	size_t slot = ((uintptr_t)s >> 3 ^ (uintptr_t)s >> 9) % (sizeof b->names / sizeof b->names[0]);
	if (b->names[slot].text == s)
		return b->names[slot].id;
	uint32_t id = ct_name_number(s);
	b->names[slot].text = s;
	b->names[slot].id = id;
	return id;
}

static uint64_t fixed(struct batch *b, uint64_t time, bool *bad)
{
	return ct_calibration_fix(time, b->now, bad);
}

/* A record without times lies between the record before it and now. */
static void without_time(struct batch *b, enum ct_lost_cause cause)
{
	ct_loss_add(&b->lost[cause], &(struct ct_loss){.count = 1, .from = b->last, .to = b->now});
}

/* Both times of a record; 0 and 0 say that CUPTI has none. */
static void times(struct batch *b, uint64_t start, uint64_t end, uint64_t *to_start, uint64_t *to_end)
{
	bool bad = false;
	*to_start = fixed(b, start, &bad);
	*to_end = fixed(b, end, &bad);
	if (bad || start == 0) {
		enum ct_lost_cause zero = ct_flush_forced() ? CT_LOST_UNFINISHED : CT_LOST_TIME;
		without_time(b, bad ? CT_LOST_CLOCK : zero);
		*to_start = *to_end = 0;
	} else if (*to_start > b->last && *to_start < b->now) {
		b->last = *to_start;
	}
}

/* Times of GPU work: an end of 0 says that it was still running. */
static void gpu_times(struct batch *b, struct ct_gpu *g, uint64_t start, uint64_t end)
{
	uint64_t to_start, to_end;
	if (g->correlation > b->delivery.newest_work)
		b->delivery.newest_work = g->correlation;
	b->delivery.awaited += g->correlation <= b->target;
	times(b, start, end, &to_start, &to_end);
	g->start = to_start;
	g->end = to_end;
	if (start != 0 && end == 0)
		batch_lost(b, CT_LOST_UNFINISHED, g->start);
}

/* The one time of a record. */
static uint64_t moment(struct batch *b, uint64_t time)
{
	bool bad = false;
	uint64_t at = fixed(b, time, &bad);
	if (time == 0 || bad)
		without_time(b, bad ? CT_LOST_CLOCK : CT_LOST_TIME);
	return at;
}

static void kernel_cluster(struct ct_kernel *k, const struct batch *b, const unsigned char *r)
{
	if (b->version < CUPTI_V12_0 || b->left < KERNEL_MIN_CLUSTER)
		return;
	memcpy(k->cluster, r + KERNEL_CLUSTER, sizeof k->cluster);
}

static void put_kernel(struct batch *b, const unsigned char *r)
{
	struct ct_kernel k = {
		.gpu = {.head = {CT_REC_KERNEL, sizeof k},
			.correlation = u32(r, KERNEL_CORRELATION),
			.device = u32(r, KERNEL_DEVICE),
			.context = u32(r, KERNEL_CONTEXT),
			.stream = u32(r, KERNEL_STREAM),
			.graph = u32(r, KERNEL_GRAPH),
			.graph_node = u64(r, KERNEL_GRAPH_NODE)},
		.name = name(b, text(r, KERNEL_NAME)),
		.registers = u16(r, KERNEL_REGISTERS),
		.static_shared = u32(r, KERNEL_STATIC_SHARED),
		.dynamic_shared = u32(r, KERNEL_DYNAMIC_SHARED),
		.local_per_thread = u32(r, KERNEL_LOCAL_PER_THREAD),
	};
	memcpy(k.grid, r + KERNEL_GRID, sizeof k.grid);
	memcpy(k.block, r + KERNEL_BLOCK, sizeof k.block);
	kernel_cluster(&k, b, r);
	gpu_times(b, &k.gpu, u64(r, KERNEL_START), u64(r, KERNEL_END));
	ct_calibration_kernel(u64(r, KERNEL_START));
	if (k.name == 0)
		batch_lost(b, CT_LOST_NAME, k.gpu.start);
	b->counts.kernels++;
	append(b, &k, sizeof k, k.gpu.start);
}

/* What both kinds of memcpy share. */
static struct ct_memcpy memcpy_record(struct batch *b, const unsigned char *r, size_t correlation)
{
	struct ct_memcpy c = {
		.gpu = {.head = {CT_REC_MEMCPY, sizeof c},
			.correlation = u32(r, correlation),
			.device = u32(r, MEMCPY_DEVICE),
			.context = u32(r, MEMCPY_CONTEXT),
			.stream = u32(r, MEMCPY_STREAM)},
		.bytes = u64(r, MEMCPY_BYTES),
		.copy_kind = r[MEMCPY_COPY_KIND],
		.src_kind = r[MEMCPY_SRC_KIND],
		.dst_kind = r[MEMCPY_DST_KIND],
	};
	c.src_device = c.dst_device = c.gpu.device;
	gpu_times(b, &c.gpu, u64(r, MEMCPY_START), u64(r, MEMCPY_END));
	b->counts.memcpys++;
	return c;
}

static void put_memcpy(struct batch *b, const unsigned char *r)
{
	struct ct_memcpy c = memcpy_record(b, r, MEMCPY_CORRELATION);
	c.gpu.graph = u32(r, MEMCPY_GRAPH);
	c.gpu.graph_node = u64(r, MEMCPY_GRAPH_NODE);
	append(b, &c, sizeof c, c.gpu.start);
}

static void put_peer_memcpy(struct batch *b, const unsigned char *r)
{
	struct ct_memcpy c = memcpy_record(b, r, MEMCPY2_CORRELATION);
	c.gpu.graph = u32(r, MEMCPY2_GRAPH);
	c.gpu.graph_node = u64(r, MEMCPY2_GRAPH_NODE);
	c.src_device = u32(r, MEMCPY2_SRC_DEVICE);
	c.dst_device = u32(r, MEMCPY2_DST_DEVICE);
	append(b, &c, sizeof c, c.gpu.start);
}

static void put_memset(struct batch *b, const unsigned char *r)
{
	struct ct_memset s = {
		.gpu = {.head = {CT_REC_MEMSET, sizeof s},
			.correlation = u32(r, MEMSET_CORRELATION),
			.device = u32(r, MEMSET_DEVICE),
			.context = u32(r, MEMSET_CONTEXT),
			.stream = u32(r, MEMSET_STREAM),
			.graph = u32(r, MEMSET_GRAPH),
			.graph_node = u64(r, MEMSET_GRAPH_NODE)},
		.bytes = u64(r, MEMSET_BYTES),
		.value = u32(r, MEMSET_VALUE),
	};
	gpu_times(b, &s.gpu, u64(r, MEMSET_START), u64(r, MEMSET_END));
	b->counts.memsets++;
	append(b, &s, sizeof s, s.gpu.start);
}

static void count_call(struct batch *b, const struct ct_api *a)
{
	struct ct_delivery *d = &b->delivery;
	if (a->correlation > d->newest_call)
		d->newest_call = a->correlation;
	if (a->correlation > d->newest_success && a->ret == 0)
		d->newest_success = a->correlation;
}

static void put_above(struct batch *b, struct ct_api *a, struct ct_above above)
{
	a->chain = above.chain;
	a->python = above.python;
	a->operators = above.operators;
	if (above.python == CT_PYTHON_LOST) {
		a->python = 0;
		batch_lost(b, CT_LOST_PYTHON, a->start);
	}
	if (above.operators == CT_TORCH_LOST) {
		a->operators = 0;
		batch_lost(b, CT_LOST_OPERATOR, a->start);
	}
}

static void put_api(struct batch *b, const unsigned char *r)
{
	uint32_t domain = u32(r, 0) == KIND_DRIVER ? DOMAIN_DRIVER : DOMAIN_RUNTIME;
	uint32_t id = ct_wanted_name(domain, u32(r, API_CBID));
	if (u32(r, API_CBID) == (domain == DOMAIN_DRIVER ? CBID_CUPROFILERSTART : CBID_CUDAPROFILERSTART))
		ct_range_began();
	bool bad = false, counts_devices = domain == DOMAIN_DRIVER && u32(r, API_CBID) == CBID_CUDEVICEGETCOUNT;
	/* a call that was never asked for, or is ours */
	if (id == 0 || ct_is_own_call(u32(r, API_TID), fixed(b, u64(r, API_START), &bad), counts_devices))
		return;
	struct ct_api a = {
		.head = {CT_REC_API, sizeof a},
		.correlation = u32(r, API_CORRELATION),
		.start = fixed(b, u64(r, API_START), &bad),
		.end = fixed(b, u64(r, API_END), &bad),
		.tid = u32(r, API_TID),
		.domain = domain,
		.cbid = u32(r, API_CBID),
		.ret = u32(r, API_RETURN),
		.name = id,
	};
	if (domain == DOMAIN_DRIVER || ct_match_runtime())
		put_above(b, &a, ct_match_call(u32(r, API_TID), u64(r, API_START), u64(r, API_END)));
	if (bad) {
		without_time(b, CT_LOST_CLOCK);
		a.start = a.end = 0;
	}
	if (ct_wanted_creates_work(domain, a.cbid))
		count_call(b, &a);
	if (!ct_wanted_time(a.start))
		return;
	b->counts.apis++;
	append(b, &a, sizeof a, a.start);
}

static void put_device(struct batch *b, const unsigned char *r)
{
	struct ct_device d = {
		.head = {CT_REC_DEVICE, sizeof d},
		.id = u32(r, DEVICE_ID),
		.memory = u64(r, DEVICE_MEMORY),
		.bandwidth = u64(r, DEVICE_BANDWIDTH),
		.name = name(b, text(r, DEVICE_NAME)),
		.multiprocessors = u32(r, DEVICE_MULTIPROCESSORS),
		.major = u32(r, DEVICE_MAJOR),
		.minor = u32(r, DEVICE_MINOR),
		.l2_cache = u32(r, DEVICE_L2_CACHE),
		.clock = u32(r, DEVICE_CLOCK),
		.copy_engines = u32(r, DEVICE_COPY_ENGINES),
		.ecc = u32(r, DEVICE_ECC),
		.warp_size = u32(r, DEVICE_WARP_SIZE),
		.max_warps = u32(r, DEVICE_MAX_WARPS),
		.max_blocks = u32(r, DEVICE_MAX_BLOCKS),
		.max_shared = u32(r, DEVICE_MAX_SHARED),
		.max_registers = u32(r, DEVICE_MAX_REGISTERS),
		.block_registers = u32(r, DEVICE_BLOCK_REGISTERS),
		.block_shared = u32(r, DEVICE_BLOCK_SHARED),
		.block_threads = u32(r, DEVICE_BLOCK_THREADS),
	};
	memcpy(d.uuid, r + DEVICE_UUID, sizeof d.uuid);
	append(b, &d, sizeof d, 0);
}

static void put_context(struct batch *b, const unsigned char *r)
{
	struct ct_context c = {
		.head = {CT_REC_CONTEXT, sizeof c},
		.id = u32(r, CONTEXT_ID),
		.device = u32(r, CONTEXT_DEVICE),
		.null_stream = u16(r, CONTEXT_NULL_STREAM),
	};
	append(b, &c, sizeof c, 0);
}

static void put_stream(struct batch *b, const unsigned char *r)
{
	struct ct_stream s = {
		.head = {CT_REC_STREAM, sizeof s},
		.id = u32(r, STREAM_ID),
		.context = u32(r, STREAM_CONTEXT),
		.priority = (int32_t)u32(r, STREAM_PRIORITY),
		.flags = u32(r, STREAM_FLAG),
		.correlation = u32(r, STREAM_CORRELATION),
	};
	append(b, &s, sizeof s, 0);
}

/* The thread among the ids at an object, 0 when the object is none. */
static uint32_t thread_of(const unsigned char *r, size_t kind, size_t object)
{
	return u32(r, kind) == OBJECT_THREAD ? u32(r, object + ID_THREAD) : 0;
}

static void put_overhead(struct batch *b, const unsigned char *r)
{
	struct ct_overhead o = {
		.head = {CT_REC_OVERHEAD, sizeof o},
		.tid = thread_of(r, OVERHEAD_OBJECT_KIND, OVERHEAD_OBJECT),
		.overhead_kind = u32(r, OVERHEAD_KIND),
		.object_kind = u32(r, OVERHEAD_OBJECT_KIND),
	};
	b->delivery.flushes += o.overhead_kind == OVERHEAD_FLUSH;
	times(b, u64(r, OVERHEAD_START), u64(r, OVERHEAD_END), &o.start, &o.end);
	append(b, &o, sizeof o, o.start);
}

static void put_marker(struct batch *b, const unsigned char *r)
{
	const char *s = text(r, MARKER_NAME);
	struct ct_marker m = {
		.head = {.kind = CT_REC_MARKER},
		.id = u32(r, MARKER_ID),
		.time = moment(b, u64(r, MARKER_TIME)),
		.tid = thread_of(r, MARKER_OBJECT_KIND, MARKER_OBJECT),
		.flags = u32(r, MARKER_FLAGS),
		.domain = name(b, text(r, MARKER_DOMAIN)),
		.length = s ? (uint32_t)strnlen(s, CT_NAME_MAX) : 0,
	};
	uint32_t padded = (m.length + 7) & ~7u;
	m.head.size = (uint16_t)(sizeof m + padded);
	unsigned char *at = room(b, m.head.size, m.time);
	if (!at)
		return;
	if (m.length == CT_NAME_MAX && s[m.length])
		batch_lost(b, CT_LOST_CUT, m.time);
	memcpy(at, &m, sizeof m);
	memset(at + sizeof m, 0, padded);
	if (m.length > 0)
		memcpy(at + sizeof m, s, m.length);
}

static void put_name(struct batch *b, const unsigned char *r)
{
	const unsigned char *ids = r + NAME_OBJECT;
	struct ct_name n = {
		.head = {CT_REC_NAME, sizeof n},
		.object_kind = u32(r, NAME_OBJECT_KIND),
		.name = name(b, text(r, NAME_NAME)),
	};
	switch (n.object_kind) {
	case OBJECT_PROCESS:
		n.id = u32(ids, ID_PROCESS);
		break;
	case OBJECT_THREAD:
		n.id = u32(ids, ID_THREAD);
		break;
	case OBJECT_STREAM:
		n.id = u32(ids, ID_STREAM);
		n.context = u32(ids, ID_CONTEXT);
		n.device = u32(ids, ID_DEVICE);
		break;
	case OBJECT_CONTEXT:
		n.id = u32(ids, ID_CONTEXT);
		n.device = u32(ids, ID_DEVICE);
		break;
	default:
		n.id = u32(ids, ID_DEVICE);
	}
	append(b, &n, sizeof n, 0);
}

static void put_pool(struct batch *b, const unsigned char *r)
{
	bool knows_use = b->version >= CUPTI_V12_0 && b->left >= POOL_MIN_USED && u32(r, POOL_TYPE) == POOL_LOCAL;
	struct ct_memory_pool p = {
		.head = {CT_REC_MEMORY_POOL, sizeof p},
		.correlation = u32(r, POOL_CORRELATION),
		.time = moment(b, u64(r, POOL_TIME)),
		.address = u64(r, POOL_ADDRESS),
		.size = u64(r, POOL_SIZE),
		.release_threshold = u64(r, POOL_THRESHOLD),
		.min_bytes_to_keep = u64(r, POOL_MIN_BYTES),
		.operation = u32(r, POOL_OPERATION),
		.pool_kind = u32(r, POOL_TYPE),
		.device = u32(r, POOL_DEVICE),
		.used = knows_use ? u64(r, POOL_USED) : 0,
	};
	append(b, &p, sizeof p, p.time);
}

static const struct {
	size_t least; /* bytes that are read */
	void (*put)(struct batch *, const unsigned char *);
} table[] = {
#define KIND(kind, group, name, need, stays, least, translate) [kind] = {least, translate},
#define CALLS(kind, least, translate) [kind] = {least, translate},
#include "kinds.def"
};

/* Whether a record is of a graph, or of a call that makes one ready. */
static bool is_of_graph(const unsigned char *r, size_t left)
{
	size_t graph;
	switch (left >= API_MIN ? u32(r, 0) : 0) {
	case KIND_RUNTIME:
		return ct_graph_call(DOMAIN_RUNTIME, u32(r, API_CBID));
	case KIND_DRIVER:
		return ct_graph_call(DOMAIN_DRIVER, u32(r, API_CBID));
	case KIND_CONCURRENT_KERNEL:
		graph = KERNEL_GRAPH;
		break;
	case KIND_MEMCPY:
		graph = MEMCPY_GRAPH;
		break;
	case KIND_MEMCPY2:
		graph = MEMCPY2_GRAPH;
		break;
	case KIND_MEMSET:
		graph = MEMSET_GRAPH;
		break;
	default:
		return false;
	}
	return left >= graph + sizeof(uint32_t) && u32(r, graph) != 0;
}

static void translate(struct batch *b, const unsigned char *record, size_t left)
{
	uint32_t kind = left >= sizeof kind ? u32(record, 0) : 0;
	if (is_of_graph(record, left))
		ct_graph_seen();
	if (!b)
		return;
	if (kind >= sizeof table / sizeof table[0] || !table[kind].put)
		return; /* never asked for */
	b->left = left;
	if (left < table[kind].least)
		batch_lost(b, CT_LOST_UNREADABLE, 0);
	else
		table[kind].put(b, record);
}

/* Gives the batch to the queue, with its counts and losses. Of what CUPTI lost, some may have been of graphs. */
static void batch_end(struct batch *b)
{
	if (b->lost[CT_LOST_CUPTI].count + b->lost[CT_LOST_BUFFER].count + b->lost[CT_LOST_UNREADABLE].count > 0)
		ct_graph_seen();
	ct_queue_count(&b->counts);
	ct_delivered_add(&b->delivery);
	for (int cause = 1; cause < CT_LOST_CAUSES; cause++)
		ct_queue_lost((enum ct_lost_cause)cause, &b->lost[cause]);
	if (b->chunk)
		ct_queue_push(b->chunk);
	b->chunk = NULL;
}

/* Buffers. */
#define KERNEL_BYTES 216 /* of CUPTI 13's kernel record, the largest we ask for */

static _Atomic(const struct ct_cupti *) active; /* NULL while records go nowhere */
static CT_KEPT ct_result (*_Atomic next_record)(uint8_t *buffer, size_t valid, void **record);

/* With NULL, records go nowhere. */
void ct_complete_start(const struct ct_cupti *api)
{
	ct_delivered_start();
	if (api)
		atomic_store(&next_record, api->get_next_record);
	atomic_store(&active, api);
}

/* b is NULL for a buffer that comes behind the recording: variables that are not kept must not be touched then. */
static void read_records(struct batch *b, uint8_t *buffer, size_t valid)
{
	void *record = NULL;
	ct_result r;
	while ((r = next_record(buffer, valid, &record)) == 0) {
		const unsigned char *p = record;
		if (p < buffer || p >= buffer + valid)
			break;
		translate(b, p, valid - (size_t)(p - buffer));
	}
	if (b && r != CUPTI_MAX_LIMIT_REACHED)
		batch_lost(b, CT_LOST_UNREADABLE, 0);
}

static void count_dropped(const struct ct_cupti *api, struct batch *b, void *context, uint32_t stream)
{
	uint64_t since = ct_delivered_again(b->now);
	if (since > b->now) /* another thread was quicker with a later buffer */
		since = b->last;
	size_t dropped = 0;
	if (api->get_dropped(context, stream, &dropped) != 0 || dropped == 0)
		return;
	ct_loss_add(&b->lost[CT_LOST_CUPTI], &(struct ct_loss){.count = dropped, .from = since, .to = b->now});
}

/* Threads may have overwritten each other in this buffer: its length alone means anything. */
static void count_scratch(struct batch *b, size_t valid)
{
	uint64_t least = (valid + KERNEL_BYTES - 1) / KERNEL_BYTES;
	ct_loss_add(&b->lost[CT_LOST_BUFFER], &(struct ct_loss){.count = least, .from = b->last, .to = b->now});
}

static void read_buffer(const struct ct_cupti *api, void *context, uint32_t stream, uint8_t *buffer, size_t valid)
{
	struct batch b = {
		.last = ct_delivered_last(), .now = ct_now(), .version = api->version, .target = ct_delivered_target()};
	if (b.last > b.now)
		b.last = b.now;
	if (ct_pool_scratch(buffer))
		count_scratch(&b, valid);
	else if (valid > 0)
		read_records(&b, buffer, valid);
	count_dropped(api, &b, context, stream);
	batch_end(&b);
}

void ct_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	struct ct_visit v;
	if (!buffer || !ct_here())
		return;
	bool in = ct_visit(&v);
	const struct ct_cupti *api = in ? atomic_load(&active) : NULL;
	if (in)
		ct_delivered_buffer();
	if (api && valid <= size)
		read_buffer(api, context, stream, buffer, valid);
	else if (ct_pool_scratch(buffer))
		ct_graph_seen(); /* perhaps */
	else if (valid > 0 && valid <= size && next_record)
		read_records(NULL, buffer, valid);
	if (!ct_pool_scratch(buffer))
		ct_pool_release(buffer);
	ct_visit_end(&v);
}
