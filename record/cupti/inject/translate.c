/*
 * One CUPTI record into one wire record. Offsets are those of cupti_abi.h; left
 * is the number of bytes from the record to the end of its buffer, so that no
 * read leaves the buffer whatever the record claims to be.
 */
#include "inject.h"

#include <string.h>

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

void ct_batch_lost(struct ct_batch *b, enum ct_lost_cause cause, uint64_t time)
{
	uint64_t at = time ? time : b->now;
	ct_loss_add(&b->lost[cause], &(struct ct_loss){.count = 1, .from = at, .to = at});
}

/* Appends a finished record to the batch; without room it is lost, and counted. */
static void put(struct ct_batch *b, const void *record, uint32_t size, uint64_t time)
{
	if (b->chunk && CT_CHUNK_DATA - b->chunk->used < size) {
		ct_queue_push(b->chunk);
		b->chunk = NULL;
	}
	if (!b->chunk)
		b->chunk = ct_queue_chunk();
	if (!b->chunk) {
		ct_batch_lost(b, CT_LOST_QUEUE, time);
		return;
	}
	memcpy(b->chunk->data + b->chunk->used, record, size);
	b->chunk->used += size;
}

/*
 * The number of a name. Pointers seen before in this buffer are not looked at
 * again: their text cannot have changed while CUPTI waits for us.
 */
static uint32_t name(struct ct_batch *b, const char *s)
{
	if (!s)
		return 0;
	size_t slot = ((uintptr_t)s >> 3 ^ (uintptr_t)s >> 9) % (sizeof b->names / sizeof b->names[0]);
	if (b->names[slot].text == s)
		return b->names[slot].id;
	uint32_t id = ct_strings_id(s);
	b->names[slot].text = s;
	b->names[slot].id = id;
	return id;
}

static uint64_t fixed(struct ct_batch *b, uint64_t time, bool *bad)
{
	return ct_clock_fix(time, b->now, bad);
}

/* Times of GPU work; 0 and 0 say that CUPTI ran short of device buffer. */
static void gpu_times(struct ct_batch *b, struct ct_gpu *g, uint64_t start, uint64_t end)
{
	bool bad = false;
	g->start = fixed(b, start, &bad);
	g->end = fixed(b, end, &bad);
	if (start == 0)
		ct_batch_lost(b, CT_LOST_TIME, 0);
	else if (end == 0)
		ct_batch_lost(b, CT_LOST_UNFINISHED, g->start);
	if (bad)
		ct_batch_lost(b, CT_LOST_CLOCK, 0);
	if (bad || start == 0)
		g->start = g->end = 0;
}

static void kernel_cluster(struct ct_kernel *k, const struct ct_batch *b, const unsigned char *r, size_t left)
{
	if (b->version < CUPTI_V12_0 || left < KERNEL_MIN_CLUSTER)
		return;
	memcpy(k->cluster, r + KERNEL_CLUSTER, sizeof k->cluster);
}

static void kernel(struct ct_batch *b, const unsigned char *r, size_t left)
{
	struct ct_kernel k = {
		.gpu = {.kind = CT_REC_KERNEL,
			.size = sizeof k,
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
	kernel_cluster(&k, b, r, left);
	gpu_times(b, &k.gpu, u64(r, KERNEL_START), u64(r, KERNEL_END));
	if (k.name == 0)
		ct_batch_lost(b, CT_LOST_NAME, k.gpu.start);
	b->counts.kernels++;
	put(b, &k, sizeof k, k.gpu.start);
}

/* What copies of both kinds share. */
static struct ct_memcpy copy(struct ct_batch *b, const unsigned char *r)
{
	struct ct_memcpy c = {
		.gpu = {.kind = CT_REC_MEMCPY,
			.size = sizeof c,
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
	b->counts.copies++;
	return c;
}

static void copy_local(struct ct_batch *b, const unsigned char *r, size_t left)
{
	(void)left;
	struct ct_memcpy c = copy(b, r);
	c.gpu.correlation = u32(r, MEMCPY_CORRELATION);
	c.gpu.graph = u32(r, MEMCPY_GRAPH);
	c.gpu.graph_node = u64(r, MEMCPY_GRAPH_NODE);
	put(b, &c, sizeof c, c.gpu.start);
}

static void copy_peer(struct ct_batch *b, const unsigned char *r, size_t left)
{
	(void)left;
	struct ct_memcpy c = copy(b, r);
	c.gpu.correlation = u32(r, MEMCPY2_CORRELATION);
	c.gpu.graph = u32(r, MEMCPY2_GRAPH);
	c.gpu.graph_node = u64(r, MEMCPY2_GRAPH_NODE);
	c.src_device = u32(r, MEMCPY2_SRC_DEVICE);
	c.dst_device = u32(r, MEMCPY2_DST_DEVICE);
	put(b, &c, sizeof c, c.gpu.start);
}

static void set(struct ct_batch *b, const unsigned char *r, size_t left)
{
	(void)left;
	struct ct_memset s = {
		.gpu = {.kind = CT_REC_MEMSET,
			.size = sizeof s,
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
	b->counts.sets++;
	put(b, &s, sizeof s, s.gpu.start);
}

static void api(struct ct_batch *b, const unsigned char *r, size_t left)
{
	(void)left;
	uint32_t domain = u32(r, 0) == KIND_DRIVER ? DOMAIN_DRIVER : DOMAIN_RUNTIME;
	uint32_t id = ct_enable_name(domain, u32(r, API_CBID));
	if (id == 0) { /* a call that was never asked for */
		b->counts.others++;
		return;
	}
	bool bad = false;
	struct ct_api a = {
		.kind = CT_REC_API,
		.size = sizeof a,
		.correlation = u32(r, API_CORRELATION),
		.start = fixed(b, u64(r, API_START), &bad),
		.end = fixed(b, u64(r, API_END), &bad),
		.tid = u32(r, API_TID),
		.domain = domain,
		.cbid = u32(r, API_CBID),
		.ret = u32(r, API_RETURN),
		.name = id,
	};
	if (bad) {
		ct_batch_lost(b, CT_LOST_CLOCK, 0);
		a.start = a.end = 0;
	}
	b->counts.apis++;
	put(b, &a, sizeof a, a.start);
}

static void device(struct ct_batch *b, const unsigned char *r, size_t left)
{
	(void)left;
	struct ct_device d = {
		.kind = CT_REC_DEVICE,
		.size = sizeof d,
		.id = u32(r, DEVICE_ID),
		.memory = u64(r, DEVICE_MEMORY),
		.bandwidth = u64(r, DEVICE_BANDWIDTH),
		.name = name(b, text(r, DEVICE_NAME)),
		.multiprocessors = u32(r, DEVICE_MULTIPROCESSORS),
		.major = u32(r, DEVICE_MAJOR),
		.minor = u32(r, DEVICE_MINOR),
	};
	memcpy(d.uuid, r + DEVICE_UUID, sizeof d.uuid);
	b->counts.objects++;
	put(b, &d, sizeof d, 0);
}

static void context(struct ct_batch *b, const unsigned char *r, size_t left)
{
	(void)left;
	struct ct_context c = {
		.kind = CT_REC_CONTEXT,
		.size = sizeof c,
		.id = u32(r, CONTEXT_ID),
		.device = u32(r, CONTEXT_DEVICE),
		.null_stream = u16(r, CONTEXT_NULL_STREAM),
	};
	b->counts.objects++;
	put(b, &c, sizeof c, 0);
}

static void stream(struct ct_batch *b, const unsigned char *r, size_t left)
{
	(void)left;
	struct ct_stream s = {
		.kind = CT_REC_STREAM,
		.size = sizeof s,
		.id = u32(r, STREAM_ID),
		.context = u32(r, STREAM_CONTEXT),
		.priority = (int32_t)u32(r, STREAM_PRIORITY),
		.flags = u32(r, STREAM_FLAG),
	};
	b->counts.objects++;
	put(b, &s, sizeof s, 0);
}

static const struct {
	uint32_t kind;
	size_t least; /* bytes that are read */
	void (*translate)(struct ct_batch *, const unsigned char *, size_t);
} table[] = {
	{KIND_CONCURRENT_KERNEL, KERNEL_MIN, kernel},
	{KIND_RUNTIME, API_MIN, api},
	{KIND_DRIVER, API_MIN, api},
	{KIND_MEMCPY, MEMCPY_MIN, copy_local},
	{KIND_MEMCPY2, MEMCPY2_MIN, copy_peer},
	{KIND_MEMSET, MEMSET_MIN, set},
	{KIND_DEVICE, DEVICE_MIN, device},
	{KIND_CONTEXT, CONTEXT_MIN, context},
	{KIND_STREAM, STREAM_MIN, stream},
};

void ct_translate(struct ct_batch *b, const unsigned char *record, size_t left)
{
	uint32_t kind = left >= sizeof kind ? u32(record, 0) : 0;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		if (table[i].kind != kind)
			continue;
		if (left < table[i].least)
			ct_batch_lost(b, CT_LOST_UNREADABLE, 0);
		else
			table[i].translate(b, record, left);
		return;
	}
	b->counts.others++;
}

/* Hands what the batch holds to the sender, and counts what it lost. */
void ct_batch_end(struct ct_batch *b)
{
	ct_queue_count(&b->counts);
	for (int cause = 1; cause < CT_LOST_CAUSES; cause++)
		ct_queue_lost((enum ct_lost_cause)cause, &b->lost[cause]);
	if (b->chunk)
		ct_queue_push(b->chunk);
	b->chunk = NULL;
}
