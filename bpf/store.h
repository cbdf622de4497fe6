/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
/*
 * Where events wait for user space, and what the probes keep of threads. User space
 * maps both.
 *
 * A thread writes its events into a chunk of memory of its own, one behind the other,
 * and then publishes how far it got: nothing is locked, and no line of the caches is
 * written by two processors. A full chunk gives way to a free one. User space reads
 * chunks in the order in which they were taken, up to what is published, and gives
 * back those that their thread has left.
 */
#ifndef CUDATRACE_STORE_H
#define CUDATRACE_STORE_H

#include "ids.h"

#define MAX_ARGS 12

/* Flags of an event. The first two are those of the log's Call. */
#define UNFINISHED 1
#define NO_RETURN 2
#define FAILURE 4   /* of an open call: it is wanted if it fails */
#define CHAIN_EVENT 8
#define RAW 0x10   /* args are the words that the arguments are in */
#define QUIET 0x20 /* of an open call: it is not wanted */
#define SYMBOL_EVENT 0x40
#define THREAD_EVENT 0x80

/*
 * One event: a call; with CHAIN_EVENT the return addresses of a chain in args[1..], and in
 * args[0] the epoch in which they hold; with THREAD_EVENT a thread's name in args[0..1] and its id in the
 * innermost PID namespace in args[2]; with SYMBOL_EVENT a handle in args[0], the handle
 * that it was made from in args[1] (0: it has a name), and behind them the name.
 */
struct event {
	u64 enter; /* ns, CLOCK_MONOTONIC */
	u64 exit;  /* 0 when the call did not return, or its entry alone is recorded */
	u32 pid;
	u32 tid;
	u16 func; /* of the attach cookie */
	u8 nargs;
	u8 flags;
	s32 ret;
	u64 chain;	    /* above the call, 0 when not known */
	u64 args[MAX_ARGS]; /* only nargs of them are sent */
};
_Static_assert(__builtin_offsetof(struct event, enter) == 0, "enter");
_Static_assert(__builtin_offsetof(struct event, exit) == 8, "exit");
_Static_assert(__builtin_offsetof(struct event, pid) == 16, "pid");
_Static_assert(__builtin_offsetof(struct event, tid) == 20, "tid");
_Static_assert(__builtin_offsetof(struct event, func) == 24, "func");
_Static_assert(__builtin_offsetof(struct event, nargs) == 26, "nargs");
_Static_assert(__builtin_offsetof(struct event, flags) == 27, "flags");
_Static_assert(__builtin_offsetof(struct event, ret) == 28, "ret");
_Static_assert(__builtin_offsetof(struct event, chain) == 32, "chain");
_Static_assert(__builtin_offsetof(struct event, args) == 40, "args");

INLINE void set_head(struct event *e, u64 id, u32 func, u32 nargs, u32 flags)
{
	e->exit = 0;
	e->pid = id >> 32;
	e->tid = (u32)id;
	e->func = func;
	e->nargs = nargs;
	e->flags = flags;
	e->ret = 0;
	e->chain = 0;
}

enum lost_cause {
	LOST_BUFFER_FULL = 0,
	LOST_THREAD_TABLE = 1,
	LOST_NESTING = 2,
	READ_FAULT = 3, /* an argument became 0, the call is there */
	CUT_NAME = 4,   /* the name has its first MAX_NAME - 1 bytes */
	LOST_CALIBRATION = 5, /* a call of the calibration, for any cause */
	LOST_FUNCTION_RATE = 6,	  /* entries of functions of any library, beyond their rate */
	LOST_FUNCTION_BUFFER = 7, /* events of such functions */
	LOST_FUNCTION_NESTING = 8,
	LOST_CAUSES = 9,
};

struct lost {
	u64 count;
	u64 first, last; /* ns */
};

struct {
	MAP_TYPE(MAP_PERCPU_ARRAY);
	MAP_ENTRIES(LOST_CAUSES);
	MAP_KEY(u32);
	MAP_VALUE(struct lost);
} losses SEC(".maps");

GLOBAL int count(u32 cause)
{
	struct lost *l = map_lookup(&losses, &cause);
	u64 now = ktime_ns();

	if (!l)
		return 0;
	if (!l->count)
		l->first = now;
	l->count++;
	l->last = now;
	return 0;
}

/* What every call of a thread touches: one line of the cache. */
struct slot {
	u64 id;	      /* pid << 32 | tid; 0: free; CLAIMED */
	u64 position; /* chunk << 32 | bytes of it that hold complete events */
	u64 sp;	      /* of the innermost open call if it is at the tail */
	u32 depth;    /* open calls */
	u32 tail;     /* the innermost one lies at position */
	u32 index;    /* of this slot */
	u16 announced;
	u16 unlaunched; /* 1: as far as the thread knows, no launch of its process has reached the driver */
	u64 comm[2];
	u32 reach; /* bytes of its stack that are read at a call */
	u32 place; /* of its process in the table of epochs */
};
_Static_assert(sizeof(struct slot) == 64, "slot");

/* Values of announced. */
enum { UNKNOWN = 0, ANNOUNCED = 1, MISSED = 2 };

#define CLAIMED (~0ull) /* someone fills or empties the slot */

/* Number of slots minus 1; the number is a power of two. */
const volatile u32 slot_mask = 0;

struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(4096);
	MAP_KEY(u32);
	MAP_VALUE(struct slot);
	MAP_FLAGS(MMAPABLE);
} slots SEC(".maps");

#define CHUNK_SIZE 4096
#define CHUNK_ROOM 256 /* what room promises; no event is larger */
#define NO_CHUNK (~0u)

struct chunk {
	u64 id;	   /* of the thread; 0 until this head is complete */
	u32 slot;  /* of the thread */
	u32 final; /* bytes that hold events, once the slot has another chunk */
	u8 events[CHUNK_SIZE - 16];
};
_Static_assert(sizeof(struct chunk) == CHUNK_SIZE, "chunk");
#define CHUNK_HEAD 16

struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(16);
	MAP_KEY(u32);
	MAP_VALUE(struct chunk);
	MAP_FLAGS(MMAPABLE);
} chunks SEC(".maps");

/* Which chunks are free: a queue that user space fills, in which numbers only grow. */
struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(16); /* as many as chunks, rounded up to a power of two */
	MAP_KEY(u32);
	MAP_VALUE(u64);
	MAP_FLAGS(MMAPABLE);
} queue SEC(".maps");

const volatile u32 queue_mask = 0;

struct supply {
	u64 taken; /* by threads */
	u64 pad[7];
	u64 given; /* by user space */
};

struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(1);
	MAP_KEY(u32);
	MAP_VALUE(struct supply);
	MAP_FLAGS(MMAPABLE);
} stock SEC(".maps");

/* Tries against other threads that take a chunk at the same time. The kernel verifies each turn of a loop. */
#define TRIES 4
#define MORE_TRIES 8
#define TAKEN (NO_CHUNK - 1) /* by others */

GLOBAL u32 try_chunk(void)
{
	u32 zero = 0, i;
	struct supply *from = map_lookup(&stock, &zero);
	u64 ticket, *number;

	if (!from)
		return NO_CHUNK;
	BOUNDED
	for (i = 0; i < TRIES; i++) {
		ticket = *(volatile u64 *)&from->taken;
		if (ticket == *(volatile u64 *)&from->given)
			return NO_CHUNK;
		if (__sync_val_compare_and_swap(&from->taken, ticket, ticket + 1) != ticket)
			continue;
		i = ticket & queue_mask;
		number = map_lookup(&queue, &i);
		return number ? *number : NO_CHUNK;
	}
	return TAKEN;
}

/* Takes a free chunk; NO_CHUNK, or another number that no chunk has, if there is none. */
INLINE u32 take_chunk(void)
{
	u32 i, number = TAKEN;

	BOUNDED
	for (i = 0; i < MORE_TRIES && number == TAKEN; i++)
		number = try_chunk();
	return number;
}

/* Leaves the thread's chunk to user space. */
NOINLINE void close_chunk(struct slot *s)
{
	u32 number = s->position >> 32;
	struct chunk *c = map_lookup(&chunks, &number);

	if (c)
		c->final = (u32)s->position;
	PUBLISH(&s->position, (u64)NO_CHUNK << 32 | CHUNK_SIZE);
}

/* Gives the thread a chunk with room in it; 0 if there is none. */
NOINLINE int next_chunk(struct slot *s)
{
	u32 number = take_chunk();
	struct chunk *c = map_lookup(&chunks, &number);

	if (!c)
		return 0;
	close_chunk(s);
	c->slot = s->index;
	s->position = (u64)number << 32 | CHUNK_HEAD;
	PUBLISH(&c->id, s->id);
	return 1;
}

/* Where the thread's next event goes, or its innermost open call is. */
INLINE struct event *tail_of(struct slot *s)
{
	u64 position = s->position;
	u32 number = position >> 32, at = (u32)position;
	struct chunk *c = map_lookup(&chunks, &number);

	if (!c)
		return 0;
	BARRIER; /* the verifier wants this first */
	if (at > CHUNK_SIZE - CHUNK_ROOM)
		return 0;
	return (struct event *)((u8 *)c + at);
}

/* The same, in a new chunk if need be; 0 if there is none. */
INLINE struct event *room(struct slot *s)
{
	if ((u32)s->position > CHUNK_SIZE - CHUNK_ROOM && !next_chunk(s))
		return 0;
	return tail_of(s);
}

/* Hands the event at the tail, of nargs words, to user space. */
INLINE void publish(struct slot *s, u32 nargs)
{
	PUBLISH(&s->position, s->position + __builtin_offsetof(struct event, args) + nargs * 8);
}

/* Sends an event. */
NOINLINE int put(struct slot *s, const struct event *e)
{
	struct event *to = room(s);

	if (!to)
		return 0;
	__builtin_memcpy(to, e, sizeof(*to));
	publish(s, e->nargs <= MAX_ARGS ? e->nargs : MAX_ARGS);
	return 1;
}

/*
 * Slots are found by thread id: at the place that it gives, or else at one of those that
 * follow in steps of 1, 2, 3 and so on.
 */
#define PROBES 64
#define STRIDE 8 /* the kernel verifies each turn of a loop */
#define NO_SLOT (~0u)

INLINE struct slot *slot_at(u32 index)
{
	index &= slot_mask;
	return map_lookup(&slots, &index);
}

/* The index of the slot that has an ID among STRIDE places, the first of which is that after some steps. */
GLOBAL u32 search_stride(u32 index, u32 steps, u64 id)
{
	struct slot *s;
	u32 i;

	BOUNDED
	for (i = 1; i <= STRIDE; i++) {
		s = slot_at(index);
		if (!s) /* never so; a loop that ends here is less for the kernel to check than one that goes on */
			return NO_SLOT;
		if (s->id == id)
			return index & slot_mask;
		index += steps + i;
	}
	return NO_SLOT;
}

/* The index of the slot that has an ID, 0 of a free one, among those where a thread's may be; NO_SLOT if none has. */
GLOBAL u32 search_slots(u32 thread, u64 id)
{
	u32 steps, found, index = thread;

	BOUNDED
	for (steps = 0; steps < PROBES; steps += STRIDE) {
		found = search_stride(index, steps, id);
		if (found != NO_SLOT)
			return found;
		index += STRIDE * steps + STRIDE * (STRIDE + 1) / 2;
	}
	return NO_SLOT;
}

/* A thread's slot, 0 if it has none. */
INLINE struct slot *find_slot(u64 id)
{
	struct slot *s = slot_at((u32)id);
	u32 index;

	if (!id)
		return 0;
	if (s && s->id == id)
		return s;
	index = search_slots(id, id);
	return index == NO_SLOT ? 0 : slot_at(index);
}

/* Takes the slot from the thread that it belongs to; 0 if someone else did. */
INLINE int claim(struct slot *s, u64 id)
{
	return __sync_val_compare_and_swap(&s->id, id, CLAIMED) == id;
}

INLINE void clear_slot(struct slot *s)
{
	s->position = (u64)NO_CHUNK << 32 | CHUNK_SIZE;
	s->sp = 0;
	s->depth = 0;
	s->tail = 0;
	s->announced = UNKNOWN;
	s->unlaunched = 1;
	s->comm[0] = 0;
	s->comm[1] = 0;
	s->reach = 8;
}

/* Frees a slot that was claimed. */
INLINE void release(struct slot *s)
{
	close_chunk(s);
	PUBLISH(&s->id, 0);
}

#endif
