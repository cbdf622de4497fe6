/*
 * The queue of messages to the recorder, the counts of lost records, and the thread that sends. Every thread
 * adds to the queue and the sender takes from it; a thread that adds must never wait for the
 * sender.
 *
 * Batches are bounded: a thread that gets no chunk drops its records and counts them.
 * Strings and chains are bounded by their tables and leave before any batch, so that a
 * record never precedes its name. Of messages that repeat (losses, the clock, the time up
 * to which all is flushed) the latest alone is kept until the sender takes it. Other
 * messages are few and always find room.
 */
#include "queue.h"

#include <string.h>

#include "base.h"
#include "link.h"

#define KEEP 4 /* idle chunks */
#define MERGED (16u << 10) /* bytes of a batch that may be copied into another */

struct list {
	struct ct_chunk *head, *tail;
};

static struct ct_lock lock;
static struct ct_condition more;
static struct ct_condition rested; /* all is sent, or the sender has ended */
static struct list definitions, batches; /* the former are strings and chains */
static struct ct_chunk *idle;
static unsigned idle_count, in_use, limit;
static struct ct_loss losses[CT_LOST_CAUSES];
static struct ct_counts counts;
static struct ct_clock clocks[CT_CLOCK_MODES];
static bool clock_waits[CT_CLOCK_MODES];
static struct ct_chunk *state_chunk;   /* of the sender, for LOST and CLOCK */
static struct ct_chunk *flushed_chunk; /* among the batches or, with flushed_free, not */
static bool flushed_free;
static bool finishing, closed; /* closed: nothing is sent any more */
static bool resting;           /* the sender has sent all that it took */
static uint64_t taken, rests;  /* chunks by the sender; how often it found nothing to send */

static struct ct_chunk *new_chunk(void)
{
	struct ct_chunk *c = ct_alloc(CT_CHUNK_SIZE);
	if (c)
		c->frame.type = CT_MSG_BATCH;
	return c;
}

bool ct_queue_start(size_t memory)
{
	limit = (unsigned)(memory / CT_CHUNK_SIZE);
	state_chunk = new_chunk();
	flushed_chunk = new_chunk();
	flushed_free = true;
	return state_chunk && flushed_chunk;
}

static void append(struct list *l, struct ct_chunk *c)
{
	c->next = NULL;
	if (l->tail)
		l->tail->next = c;
	else
		l->head = c;
	l->tail = c;
}

static struct ct_chunk *pop(struct list *l)
{
	struct ct_chunk *c = l->head;
	if (c) {
		l->head = c->next;
		if (!l->head)
			l->tail = NULL;
	}
	return c;
}

static void give_back(void)
{
	ct_lock(&lock);
	in_use--;
	ct_unlock(&lock);
}

static struct ct_chunk *take_idle(void)
{
	struct ct_chunk *c = idle;
	if (c) {
		idle = c->next;
		idle_count--;
	}
	return c;
}

/* An empty chunk; NULL when that many are in use. */
static struct ct_chunk *chunk_below(unsigned most)
{
	ct_lock(&lock);
	bool allowed = in_use < most && !finishing;
	struct ct_chunk *c = allowed ? take_idle() : NULL;
	in_use += allowed;
	size_t total = in_use;
	ct_unlock(&lock);
	if (!allowed)
		return NULL;
	if (!c && ct_has_room(total * CT_CHUNK_SIZE))
		c = new_chunk();
	if (c)
		c->counted = 1;
	else
		give_back();
	return c;
}

/* An empty chunk for records; NULL when the queue has reached its limit. */
struct ct_chunk *ct_queue_chunk(void)
{
	return chunk_below(limit);
}

/* The same for records that may take half of the queue: without them those of CUDA are whole. Without a chunk one is lost. */
struct ct_chunk *ct_queue_half_chunk(enum ct_lost_cause cause, uint64_t time)
{
	struct ct_chunk *c = chunk_below(limit / 2);
	if (c)
		return c;
	ct_lock(&lock);
	if (!finishing) { /* else the sender would have something to say for as long as threads run operators */
		ct_loss_add(&losses[cause], &(struct ct_loss){.count = 1, .from = time, .to = time});
		ct_condition_tell(&more);
	}
	ct_unlock(&lock);
	return NULL;
}

/* Takes back a chunk that was sent, or copied. */
static void recycle(struct ct_chunk *c)
{
	bool keep = c == state_chunk || c == flushed_chunk;
	ct_lock(&lock);
	in_use -= c->counted;
	if (c == flushed_chunk)
		flushed_free = true;
	if (!keep && idle_count < KEEP) {
		memset(c, 0, sizeof *c);
		c->frame.type = CT_MSG_BATCH;
		c->next = idle;
		idle = c;
		idle_count++;
		keep = true;
	}
	ct_unlock(&lock);
	if (!keep)
		ct_free(c, CT_CHUNK_SIZE);
}

static void fill(struct ct_chunk *c, const void *data, size_t size)
{
	if (size > CT_CHUNK_DATA - c->used)
		size = CT_CHUNK_DATA - c->used;
	memcpy(c->data + c->used, data, size);
	c->used += (uint32_t)size;
}

static size_t padded(size_t length)
{
	return (length + 7) & ~(size_t)7;
}

/* A record, and a text behind it. */
static void fill_with(struct ct_chunk *c, const void *record, size_t size, const char *text, size_t length)
{
	static const unsigned char zeros[8];
	fill(c, record, size);
	if (length > 0)
		fill(c, text, length);
	fill(c, zeros, padded(length) - length);
}

/* Adds the records of a chunk to the last batch. Under the lock: false where that is more than a short copy. */
static bool merge(const struct ct_chunk *c)
{
	struct ct_chunk *last = batches.tail;
	if (c->frame.type != CT_MSG_BATCH || c->used > MERGED || !last || last->frame.type != CT_MSG_BATCH ||
	    CT_CHUNK_DATA - last->used < c->used)
		return false;
	fill(last, c->data, c->used);
	return true;
}

/* Buffers of many threads have few records each: they share chunks. */
void ct_queue_push(struct ct_chunk *c)
{
	ct_lock(&lock);
	bool done = closed || merge(c);
	if (!done)
		append(&batches, c);
	ct_condition_tell(&more);
	ct_unlock(&lock);
	if (done)
		recycle(c);
}

/* Sends a single message beside the limit. Without memory it is left out, and counts as a lost record. */
void ct_queue_message(uint16_t type, const void *head, size_t head_size, const char *text, size_t text_size)
{
	struct ct_chunk *c = new_chunk();
	if (!c) {
		uint64_t now = ct_now();
		ct_queue_lost(CT_LOST_QUEUE, &(struct ct_loss){.count = 1, .from = now, .to = now});
		return;
	}
	c->frame.type = type;
	fill(c, head, head_size);
	if (text_size > 0)
		fill(c, text, text_size);
	ct_queue_push(c);
}

/* A line for a person. */
void ct_queue_note(uint32_t severity, const char *text)
{
	struct ct_note note = {.severity = severity, .text_len = (uint32_t)strlen(text)};
	ct_queue_message(CT_MSG_NOTE, &note, sizeof note, text, note.text_len);
}

/* Room in the chunk that leaves before all batches; NULL without memory. Under the lock. */
static struct ct_chunk *definition_chunk(size_t size)
{
	struct ct_chunk *c = definitions.tail;
	if (!c || CT_CHUNK_DATA - c->used < size) {
		c = new_chunk();
		if (c)
			append(&definitions, c);
	}
	return c;
}

/* Adds a record, with a text behind it, that leaves before all batches; false without memory. */
bool ct_queue_definition(const void *record, size_t size, const char *text, size_t length)
{
	ct_lock(&lock);
	struct ct_chunk *c = closed ? NULL : definition_chunk(size + padded(length));
	if (c)
		fill_with(c, record, size, text, length);
	ct_condition_tell(&more);
	ct_unlock(&lock);
	return c != NULL;
}

void ct_loss_add(struct ct_loss *to, const struct ct_loss *add)
{
	if (to->count == 0 || add->from < to->from)
		to->from = add->from;
	if (to->count == 0 || add->to > to->to)
		to->to = add->to;
	to->count += add->count;
}

void ct_queue_lost(enum ct_lost_cause cause, const struct ct_loss *add)
{
	if (add->count == 0)
		return;
	ct_lock(&lock);
	ct_loss_add(&losses[cause], add);
	ct_condition_tell(&more);
	ct_unlock(&lock);
}

/* Room in the last batch, or in a new one; NULL when the queue has reached its limit. Under the lock. */
static struct ct_chunk *record_chunk(size_t size)
{
	struct ct_chunk *c = batches.tail;
	if (c && c->frame.type == CT_MSG_BATCH && CT_CHUNK_DATA - c->used >= size)
		return c;
	if (in_use >= limit)
		return NULL;
	c = take_idle();
	if (!c && ct_has_room((size_t)(in_use + 1) * CT_CHUNK_SIZE))
		c = new_chunk();
	if (!c)
		return NULL;
	in_use++;
	c->counted = 1;
	if (batches.tail)
		ct_condition_tell(&more);
	append(&batches, c);
	return c;
}

/*
 * Adds a record that a thread of the program makes, with a text behind it. time is that in the record: the moment at which it is added, so that
 * no record is older than a FLUSHED before it. The sender is not woken, which would be a system call: the record leaves
 * with the next FLUSHED or batch.
 */
void ct_queue_record(const void *record, size_t size, const char *text, size_t length, uint64_t *time)
{
	ct_lock(&lock);
	*time = ct_now();
	struct ct_chunk *c = finishing ? NULL : record_chunk(size + padded(length));
	if (c)
		fill_with(c, record, size, text, length);
	else if (!finishing)
		ct_loss_add(&losses[CT_LOST_QUEUE], &(struct ct_loss){.count = 1, .from = *time, .to = *time});
	ct_unlock(&lock);
}

/*
 * Says that all up to a time is flushed, behind the batches queued so far. Left out
 * while the last such message still waits: a later one will say more.
 */
void ct_queue_flushed(uint64_t until)
{
	struct ct_flushed message = {.until = until};
	ct_lock(&lock);
	if (flushed_free) {
		flushed_free = false;
		flushed_chunk->frame.type = CT_MSG_FLUSHED;
		flushed_chunk->used = 0;
		fill(flushed_chunk, &message, sizeof message);
		append(&batches, flushed_chunk);
		ct_condition_tell(&more);
	}
	ct_unlock(&lock);
}

void ct_queue_clock(const struct ct_clock *clock)
{
	ct_lock(&lock);
	clocks[clock->mode] = *clock;
	clock_waits[clock->mode] = true;
	ct_condition_tell(&more);
	ct_unlock(&lock);
}

void ct_queue_count(const struct ct_counts *add)
{
	ct_lock(&lock);
	counts.kernels += add->kernels;
	counts.memcpys += add->memcpys;
	counts.memsets += add->memsets;
	counts.apis += add->apis;
	ct_unlock(&lock);
}

/* What a process says at its end, in a BYE or a HANDOVER. */
struct ct_bye ct_bye(uint32_t reason, uint32_t detail, uint64_t until)
{
	ct_lock(&lock);
	struct ct_counts c = counts;
	ct_unlock(&lock);
	return (struct ct_bye){.reason = reason,
			       .detail = detail,
			       .now = ct_now(),
			       .kernels = c.kernels,
			       .memcpys = c.memcpys,
			       .memsets = c.memsets,
			       .apis = c.apis,
			       .until = until};
}

static struct ct_chunk *state(uint16_t type, const void *message, size_t size)
{
	state_chunk->used = 0;
	state_chunk->frame.type = type;
	fill(state_chunk, message, size);
	return state_chunk;
}

/* A LOST message for the first cause that has something to say. Under the lock. */
static struct ct_chunk *take_loss(void)
{
	for (uint32_t cause = 1; cause < CT_LOST_CAUSES; cause++) {
		struct ct_loss *l = &losses[cause];
		if (l->count == 0)
			continue;
		struct ct_lost message = {.cause = cause, .count = l->count, .from = l->from, .to = l->to};
		memset(l, 0, sizeof *l);
		return state(CT_MSG_LOST, &message, sizeof message);
	}
	return NULL;
}

static struct ct_chunk *take_clock(void)
{
	for (uint32_t mode = 0; mode < CT_CLOCK_MODES; mode++) {
		if (!clock_waits[mode])
			continue;
		clock_waits[mode] = false;
		return state(CT_MSG_CLOCK, &clocks[mode], sizeof clocks[mode]);
	}
	return NULL;
}

/*
 * The next message to send. Losses are summed up until nothing else waits, or until
 * it is said how far all is flushed. Under the lock.
 */
static struct ct_chunk *next(void)
{
	struct ct_chunk *c = take_clock();
	if (!c)
		c = pop(&definitions);
	if (!c && (!batches.head || batches.head == flushed_chunk))
		c = take_loss();
	return c ? c : pop(&batches);
}

/* The next message; waits for one. NULL when the queue was finished and is empty. */
static struct ct_chunk *take(void)
{
	struct ct_chunk *c;
	ct_lock(&lock);
	while (!(c = next()) && !finishing) {
		resting = true;
		rests++;
		ct_condition_tell(&rested);
		ct_condition_wait(&more, &lock, CT_FOREVER);
	}
	resting = false;
	taken++;
	ct_unlock(&lock);
	if (c)
		c->frame.length = c->used;
	return c;
}

static bool nothing_waits(void)
{
	bool none = !definitions.head && !batches.head;
	for (int cause = 1; none && cause < CT_LOST_CAUSES; cause++)
		none = losses[cause].count == 0;
	return none;
}

/*
 * Waits until the kernel has all that is queued now; false when the sender has ended
 * or sent nothing for as long as stall, or when the deadline is over.
 */
bool ct_queue_wait_sent(uint64_t deadline, uint64_t stall)
{
	ct_lock(&lock);
	uint64_t begun = rests, last = taken, now = ct_now(), until = now + stall;
	bool moves = true;
	ct_condition_tell(&more);
	while (moves && !closed && !(resting && nothing_waits()) && rests == begun) {
		now = ct_now();
		if (taken != last)
			until = now + stall;
		last = taken;
		moves = now < until && now < deadline;
		if (moves)
			ct_condition_wait(&rested, &lock, (until < deadline ? until : deadline) - now);
	}
	bool sent = moves && !closed;
	ct_unlock(&lock);
	return sent;
}

/* The sender has ended. What a recorder that has died did not take is given back: the program may live on. */
static void end_queue(void)
{
	struct ct_chunk *c;
	do {
		ct_lock(&lock);
		closed = true;
		ct_condition_tell(&rested);
		c = pop(&definitions);
		if (!c)
			c = pop(&batches);
		ct_unlock(&lock);
		if (c)
			recycle(c);
	} while (c);
}

/* From now on records are dropped, and the sender ends when the queue is empty. */
static void finish(void)
{
	ct_lock(&lock);
	finishing = true;
	ct_condition_tell(&more);
	ct_unlock(&lock);
}

/*
 * The sender thread: it sends what the queue holds to the recorder, then a BYE. It
 * waits for a slow recorder as long as the program lives. It must not call CUPTI, so
 * that a slow flush never delays the sending.
 */
#define LOOK (8 * CT_MS) /* between looks, while the recorder is slow */

static _Atomic uint64_t give_up; /* when the sender stops trying, 0 until the end has begun */
static atomic_uint bye_reason;
static _Atomic uint64_t bye_until;

static bool sending_is_over(uint64_t progress)
{
	uint64_t last = atomic_load(&give_up);
	if (last == 0)
		return false;
	uint64_t now = ct_now(), begun = last - ct_exit_wait();
	return now > last || now > (progress > begun ? progress : begun) + CT_STALL;
}

/* Sends it all, however long the recorder takes, until the end is near. */
static bool send_all(const void *data, size_t size)
{
	const unsigned char *p = data;
	uint64_t progress = ct_now();
	while (size > 0) {
		size_t n = ct_link_send(p, size);
		if (n > 0) {
			p += n;
			size -= n;
			progress = ct_now();
			continue;
		}
		if (!ct_link_alive() || sending_is_over(progress))
			return false;
		ct_link_await_room(LOOK);
	}
	return true;
}

static void say_bye(void)
{
	struct {
		struct ct_frame frame;
		struct ct_bye bye;
	} m = {.frame = {.length = sizeof m.bye, .type = CT_MSG_BYE},
	       .bye = ct_bye(atomic_load(&bye_reason), 0, atomic_load(&bye_until))};
	send_all(&m, sizeof m);
}

/* Until the queue is finished and empty, or nothing can be sent any more. */
void ct_sender_run(void)
{
	bool ok = true;
	struct ct_chunk *c;
	ct_this_is_sender();
	ct_link_hold();
	while (ok && (c = take())) {
		ok = send_all(&c->frame, sizeof c->frame + c->used);
		recycle(c);
	}
	if (ok)
		say_bye();
	end_queue();
	ct_reach(CT_SENT);
	ct_wake_control();
}

/* The time up to which all is flushed, for the BYE. */
void ct_sender_until(uint64_t time)
{
	atomic_store(&bye_until, time);
}

/* Has the sender end when the queue is empty; the first reason stands. */
void ct_sender_finish(uint32_t reason)
{
	uint64_t none = 0;
	unsigned unset = 0;
	atomic_compare_exchange_strong(&bye_reason, &unset, reason);
	atomic_compare_exchange_strong(&give_up, &none, ct_now() + ct_exit_wait());
	finish();
}
