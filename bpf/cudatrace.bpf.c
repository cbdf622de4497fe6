//go:build ignore
/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
/*
 * Entry and return probes of CUDA functions, paired in the kernel.
 *
 * The entry probe pushes a frame onto its thread's stack of open calls; the return
 * probe pops it and writes one event. The stacks lie in a hash map that user space
 * can read, so that a call that never returns is not lost: it is still there when
 * the recording ends, or is written out when its thread does.
 *
 * A frame holds the stack pointer at entry, which tells frames left without a return
 * (longjmp, an exception) from live ones: stacks grow down, so a live caller's
 * pointer is never below that of what it called.
 */
#include "kernel.h"
#include "ids.h"
#include "ends.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MAX_ARGS 12
#define MAX_DEPTH 8
#define MAX_FUNCTIONS 1024
#define MAX_STACK_ARGS 8
#define BLOCK_SIZE 128

/* Flags of an event. The first two are those of the log's Call. */
#define UNFINISHED 1
#define NO_RETURN 2
#define QUIET 0x20 /* of a frame: the call itself is not wanted */
#define SYMBOL_EVENT 0x40
#define THREAD_EVENT 0x80

/*
 * One event in a ring buffer: a call; with THREAD_EVENT a thread's name in args[0..1]
 * and its id in the innermost PID namespace in args[2]; with SYMBOL_EVENT a handle in
 * args[0], the handle that it was made from in args[1] (0: it has a name), and behind
 * them the name.
 */
struct event {
	u64 enter; /* ns, CLOCK_MONOTONIC */
	u64 exit;  /* 0 when the call did not return */
	u32 pid;
	u32 tid;
	u16 func; /* the attach cookie */
	u8 nargs;
	u8 flags;
	s32 ret;
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
_Static_assert(__builtin_offsetof(struct event, args) == 32, "args");

struct frame {
	u64 sp;
	u64 later; /* the recipe's */
	struct event event;
};

/* What a thread's probes need. words and block are one area that recipes index. */
struct thread {
	u32 depth;
	u32 announced;
	char comm[16];
	u64 words[REGISTER_ARGS + MAX_STACK_ARGS <= 16 ? 16 : -1]; /* the call's arguments */
	u64 block[BLOCK_SIZE / 8];                                 /* start of a struct that one points to */
	u64 pad;                                                   /* a load of 8 bytes at the last 4 stays inside */
	struct frame frames[MAX_DEPTH];
};
#define SOURCE_MASK 0xfc /* of words and block together */

/* How a value gets into an event. */
enum op_kind {
	OP_COPY = 0,  /* from words or block */
	OP_FIELD = 1, /* read through the pointer in words at entry */
	OP_OUT = 2,   /* read through the pointer in words at return, if the call succeeded */
};

struct op {
	u64 mask;   /* keeps 4 or 8 bytes */
	u16 source; /* byte offset into words and block */
	u8 kind;
	u8 pad;
	u32 offset; /* into what the pointer points to */
};

struct recipe {
	u8 nargs;
	u8 stack_args;   /* how many arguments lie on the stack */
	u8 block_source; /* byte offset in words of the pointer to the block's struct */
	u8 block_size;   /* 0: none */
	u32 block_offset;
	u8 range;  /* enum range */
	u8 symbol; /* enum symbol */
	u8 quiet;  /* calls are not wanted, but what they do is */
	u8 always; /* calls are wanted while recording is paused too */
	u8 copies; /* every op is OP_COPY */
	u8 later;  /* there is something to do when a call returns */
	u8 pad[2];
	struct op ops[MAX_ARGS];
};
_Static_assert(sizeof(struct op) == 16, "op");
_Static_assert(sizeof(struct recipe) == 16 + MAX_ARGS * 16, "recipe");

/* What a function does to the range that is recorded. */
enum range {
	RANGE_NONE = 0,
	RANGE_BEGIN = 1, /* recording begins when it returns */
	RANGE_END = 2,	 /* recording ends when it is entered */
};

/* What a function makes: its first argument receives a handle. */
enum symbol {
	SYMBOL_NONE = 0,
	SYMBOL_NAMED = 1,   /* the third argument is the kernel's name */
	SYMBOL_DERIVED = 2, /* the second argument is the handle of the same kernel */
};

/* A kernel's handle with its name. Most names are short, so there are two sizes. */
#define MAX_NAME 4096
#define SHORT_NAME 512
struct symbol_event {
	u64 enter; /* the head is that of struct event */
	u64 exit;
	u32 pid;
	u32 tid;
	u16 func;
	u8 nargs;
	u8 flags;
	s32 length; /* of the name with its NUL, 0: none; MAX_NAME when it may be cut */
	u64 handle;
	u64 of;
	char name[];
};
_Static_assert(__builtin_offsetof(struct symbol_event, length) == 28, "length");
_Static_assert(__builtin_offsetof(struct symbol_event, handle) == 32, "handle");
_Static_assert(__builtin_offsetof(struct symbol_event, name) == 48, "name");

enum lost_cause {
	LOST_RING_BUFFER = 0,
	LOST_THREAD_TABLE = 1,
	LOST_NESTING = 2,
	READ_FAULT = 3, /* an argument became 0, the call is there */
	CUT_NAME = 4,   /* the name has its first MAX_NAME - 1 bytes */
	LOST_CAUSES = 5,
};

struct lost {
	u64 count;
	u64 first, last; /* ns */
};

/* Set when a process is recorded between the calls that start and stop its profiler. */
const volatile u8 capture_range = 0;
/* Number of ring buffers minus 1; the number is a power of two. */
const volatile u32 ring_mask = 0;

struct ring {
	MAP_TYPE(MAP_RINGBUF);
	MAP_ENTRIES(4096);
};

struct {
	MAP_TYPE(MAP_ARRAY_OF_MAPS);
	MAP_ENTRIES(1);
	MAP_KEY(u32);
	struct ring *values[];
} rings SEC(".maps");

struct {
	MAP_TYPE(MAP_HASH);
	MAP_ENTRIES(4096);
	MAP_KEY(u64); /* pid << 32 | tid */
	MAP_VALUE(struct thread);
} threads SEC(".maps");

struct {
	MAP_TYPE(MAP_HASH);
	MAP_ENTRIES(4096);
	MAP_KEY(u32);	/* pid */
	MAP_VALUE(u32); /* with capture_range: 1 within the range */
} targets SEC(".maps");

/* One word, not 0 while recording is paused in all processes. */
struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(1);
	MAP_KEY(u32);
	MAP_VALUE(u32);
} paused SEC(".maps");

struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(MAX_FUNCTIONS);
	MAP_KEY(u32);
	MAP_VALUE(struct recipe);
} recipes SEC(".maps");

struct {
	MAP_TYPE(MAP_PERCPU_ARRAY);
	MAP_ENTRIES(LOST_CAUSES);
	MAP_KEY(u32);
	MAP_VALUE(struct lost);
} losses SEC(".maps");

static const struct thread fresh_thread;

NOINLINE void count(u32 cause)
{
	struct lost *l = map_lookup(&losses, &cause);
	u64 now = ktime_ns();

	if (!l)
		return;
	if (!l->count)
		l->first = now;
	l->count++;
	l->last = now;
}

INLINE long send(struct event *e, u64 size, u32 index)
{
	void *ring;

	index &= ring_mask;
	ring = map_lookup(&rings, &index);
	if (!ring)
		return -1;
	return ringbuf_output(ring, e, size, RINGBUF_NO_WAKEUP);
}

INLINE void emit(struct event *e)
{
	u64 nargs = e->nargs;

	if (e->flags & QUIET)
		return;
	if (nargs > MAX_ARGS)
		nargs = MAX_ARGS;
	if (send(e, __builtin_offsetof(struct event, args) + nargs * 8, smp_processor_id()))
		count(LOST_RING_BUFFER);
}

/* Values of a thread's announced. */
enum { UNKNOWN = 0, ANNOUNCED = 1, MISSED = 2 };

/*
 * Tells user space the thread's name, which is 16 bytes: two arguments. All names of a
 * thread go through one ring buffer, as only that keeps their order.
 */
NOINLINE void announce(struct thread *t, u64 id)
{
	struct event e = {
		.enter = ktime_ns(),
		.pid = id >> 32,
		.tid = (u32)id,
		.nargs = 3,
		.flags = THREAD_EVENT,
	};
	u64 *comm = (u64 *)t->comm;

	current_comm(e.args, 16);
	if (t->announced == ANNOUNCED && comm[0] == e.args[0] && comm[1] == e.args[1])
		return;
	comm[0] = e.args[0];
	comm[1] = e.args[1];
	e.args[2] = local_tid();
	t->announced = send(&e, __builtin_offsetof(struct event, args) + 24, id) ? MISSED : ANNOUNCED;
}

NOINLINE struct thread *add_thread(u64 id)
{
	u32 pid = id >> 32;

	if (!map_lookup(&targets, &pid))
		return 0;
	if (map_update(&threads, &id, &fresh_thread, UPDATE_NOEXIST))
		count(LOST_THREAD_TABLE);
	return map_lookup(&threads, &id);
}

/*
 * A frame with the same stack pointer as a new call is either its caller, which
 * jumped to it instead of calling (then the return address is already the kernel's
 * trampoline, the start of a page), or was left by longjmp.
 */
NOINLINE int entered_by_jump(struct pt_regs *ctx)
{
	u64 from = 1;

#if RETURN_POPS
	read_user(&from, sizeof(from), (void *)STACK_POINTER(ctx));
#else
	from = ctx->x[30];
#endif
	return (from & 0xfff) == 0;
}

/* Sends and removes the innermost frames that lie below sp. */
NOINLINE void abandon(struct thread *t, u64 sp)
{
	u32 i, top;

	BOUNDED
	for (i = 0; i < MAX_DEPTH; i++) {
		top = t->depth - 1;
		if (top >= MAX_DEPTH)
			return;
		struct frame *f = &t->frames[top];
		if (f->sp >= sp)
			return;
		f->event.flags |= NO_RETURN;
		emit(&f->event);
		t->depth = top;
	}
}

/* Removes what lies between the new call and its caller. */
INLINE void unwind(struct pt_regs *ctx, struct thread *t, u64 sp)
{
	u32 top = t->depth - 1;

	if (top >= MAX_DEPTH || t->frames[top].sp > sp)
		return;
	if (t->frames[top].sp == sp && entered_by_jump(ctx))
		return;
	abandon(t, sp + 1);
}

/* Brings all that a recipe copies from into words and block. */
INLINE void gather(struct pt_regs *ctx, struct thread *t, const struct recipe *r)
{
	u32 size = r->stack_args * 8;
	u64 base;

	LOAD_REGISTER_ARGS(t->words, ctx);
	if (size) {
		if (size > MAX_STACK_ARGS * 8)
			size = MAX_STACK_ARGS * 8;
		if (read_user(&t->words[REGISTER_ARGS], size, (void *)(STACK_POINTER(ctx) + STACK_ARGS_AT)))
			count(READ_FAULT);
	}
	size = r->block_size;
	if (!size)
		return;
	if (size > BLOCK_SIZE)
		size = BLOCK_SIZE;
	base = *(u64 *)((u8 *)t->words + (r->block_source & 0x78));
	if (read_user(t->block, size, (void *)(base + r->block_offset)))
		count(READ_FAULT);
}

INLINE u64 read_field(u64 from, u64 mask)
{
	u64 value = 0;

	if (read_user(&value, mask >> 32 ? 8 : 4, (void *)from))
		count(READ_FAULT);
	return value;
}

/* The common case of record_args. */
INLINE void copy_args(struct thread *t, struct event *e, const struct recipe *r)
{
	u32 i, n = r->nargs;

	BOUNDED
	for (i = 0; i < MAX_ARGS; i++) {
		if (i >= n)
			return;
		e->args[i] = *(u64 *)((u8 *)t->words + (r->ops[i].source & SOURCE_MASK)) & r->ops[i].mask;
	}
}

INLINE void record_args(struct thread *t, struct event *e, const struct recipe *r)
{
	u32 i;

	if (r->copies) {
		copy_args(t, e, r);
		return;
	}
	BOUNDED
	for (i = 0; i < MAX_ARGS; i++) {
		const struct op *op = &r->ops[i];
		u64 value;

		if (i >= r->nargs)
			return;
		value = *(u64 *)((u8 *)t->words + (op->source & SOURCE_MASK));
		if (op->kind == OP_FIELD) {
			value = read_field(value + op->offset, op->mask);
		} else if (op->kind == OP_COPY) {
			value &= op->mask;
		}
		e->args[i] = value;
	}
}

/* Switches a process's range. */
NOINLINE void set_range(u32 pid, u32 on)
{
	u32 *within = map_lookup(&targets, &pid);

	if (within)
		*within = on;
}

/* Whether calls of the process are recorded now. */
INLINE int recording(u32 pid)
{
	u32 zero = 0, *value = map_lookup(&paused, &zero);

	if (value && *value)
		return 0;
	if (!capture_range)
		return 1;
	value = map_lookup(&targets, &pid);
	return value && *value;
}

/* Frames that a call left without a return are removed also when it is not recorded. */
NOINLINE void pass_over(struct pt_regs *ctx, u64 id)
{
	struct thread *t = map_lookup(&threads, &id);

	if (t && t->depth)
		unwind(ctx, t, STACK_POINTER(ctx));
}

/* The thread's entry; 0 when its process is no target. */
INLINE struct thread *thread_of(u64 id, u32 quiet)
{
	struct thread *t = map_lookup(&threads, &id);

	if (!t) {
		t = add_thread(id);
		if (!t)
			return 0;
	}
	if (t->announced != ANNOUNCED && !quiet)
		announce(t, id);
	return t;
}

/* Returns 0 when the call's return is wanted. */
INLINE int enter(struct pt_regs *ctx)
{
	u64 id = current_id(), sp = STACK_POINTER(ctx);
	u32 func = attach_cookie(ctx), depth, quiet;
	struct recipe *r = map_lookup(&recipes, &func);
	struct thread *t;
	struct frame *f;

	if (!r)
		return 1;
	if (capture_range && r->range == RANGE_END)
		set_range(id >> 32, 0);
	quiet = r->quiet || !(recording(id >> 32) || r->always);
	if (quiet && !r->symbol && r->range != RANGE_BEGIN) {
		pass_over(ctx, id);
		return 1;
	}
	t = thread_of(id, quiet);
	if (!t)
		return 1;
	unwind(ctx, t, sp);
	depth = t->depth;
	if (depth >= MAX_DEPTH) {
		if (!quiet)
			count(LOST_NESTING);
		return 1;
	}
	f = &t->frames[depth];
	f->sp = sp;
	f->later = r->later;
	f->event.exit = 0;
	f->event.pid = id >> 32;
	f->event.tid = (u32)id;
	f->event.func = func;
	f->event.nargs = r->nargs;
	f->event.flags = quiet ? QUIET : 0;
	f->event.ret = 0;
	gather(ctx, t, r);
	record_args(t, &f->event, r);
	t->depth = depth + 1;
	f->event.enter = ktime_ns();
	return 0;
}

/* Replaces each out-pointer by what it points to; by 0 when the call failed. */
INLINE void record_out_values(struct event *e, const struct recipe *r)
{
	u32 i;

	BOUNDED
	for (i = 0; i < MAX_ARGS; i++) {
		const struct op *op = &r->ops[i];
		u64 value = 0;

		if (i >= r->nargs)
			return;
		if (op->kind != OP_OUT)
			continue;
		if (!e->ret && e->args[i])
			value = read_field(e->args[i] + op->offset, op->mask);
		e->args[i] = value;
	}
}

/*
 * Writes what a handle stands for, with a name of at most size bytes. Returns the
 * name's length with its NUL, size when the name is longer. Then nothing is written,
 * unless it is to be cut.
 */
INLINE long write_symbol(void *ring, struct event *e, u32 kind, const u32 size, int cut)
{
	struct symbol_event *s = ringbuf_reserve(ring, sizeof(*s) + size, 0);
	long length = 0;

	if (!s) {
		count(LOST_RING_BUFFER);
		return 0;
	}
	if (kind == SYMBOL_NAMED)
		length = read_user_str(s->name, size, (void *)e->args[2]);
	if (length < 0 || (length == size && !cut)) {
		ringbuf_discard(s, RINGBUF_NO_WAKEUP);
		if (length < 0)
			count(READ_FAULT);
		return length;
	}
	s->enter = e->enter;
	s->exit = e->exit;
	s->pid = e->pid;
	s->tid = e->tid;
	s->func = e->func;
	s->nargs = 2;
	s->flags = SYMBOL_EVENT;
	s->length = length;
	s->handle = e->args[0];
	s->of = kind == SYMBOL_DERIVED ? e->args[1] : 0;
	ringbuf_submit(s, RINGBUF_NO_WAKEUP);
	return length;
}

/* Tells user space what a handle stands for. */
NOINLINE void tell_symbol(struct event *e, u32 kind)
{
	u32 index = smp_processor_id() & ring_mask;
	void *ring = map_lookup(&rings, &index);
	char next = 0;

	if (!ring || write_symbol(ring, e, kind, SHORT_NAME, 0) != SHORT_NAME)
		return;
	if (write_symbol(ring, e, kind, MAX_NAME, 1) != MAX_NAME)
		return;
	read_user(&next, 1, (void *)(e->args[2] + MAX_NAME - 1));
	if (next)
		count(CUT_NAME);
}

INLINE void leave(struct pt_regs *ctx)
{
	u64 now = ktime_ns();
	u64 id = current_id(), sp = STACK_POINTER(ctx) - RETURN_POPS;
	struct thread *t = map_lookup(&threads, &id);
	u32 func, top;
	struct recipe *r;
	struct frame *f;

	if (!t)
		return;
	func = attach_cookie(ctx);
	abandon(t, sp);
	top = t->depth - 1;
	if (top >= MAX_DEPTH)
		return;
	f = &t->frames[top];
	if (f->sp != sp || f->event.func != func)
		return; /* the call was not recorded: it began before the probe did, or was nested too deep */
	f->event.exit = now;
	f->event.ret = (s32)RETURN_VALUE(ctx);
	r = f->later ? map_lookup(&recipes, &func) : 0;
	if (r) {
		record_out_values(&f->event, r);
		if (capture_range && r->range == RANGE_BEGIN)
			set_range(id >> 32, 1);
		if (r->symbol && !f->event.ret)
			tell_symbol(&f->event, r->symbol);
	}
	emit(&f->event);
	t->depth = top;
}

/* Linux 6.13: one consumer for both ends of a call. */
extern _Bool bpf_session_is_return(void) KERNEL_FUNCTION;

SEC("uprobe.session")
int call_session(struct pt_regs *ctx)
{
	if (!bpf_session_is_return())
		return enter(ctx);
	leave(ctx);
	return 0;
}

/* Linux 6.6: many functions a link. */
SEC("uprobe.multi")
int enter_multi(struct pt_regs *ctx)
{
	enter(ctx);
	return 0;
}

SEC("uretprobe.multi")
int leave_multi(struct pt_regs *ctx)
{
	leave(ctx);
	return 0;
}

/* Linux 5.15: one perf event a function. */
SEC("uprobe")
int enter_single(struct pt_regs *ctx)
{
	enter(ctx);
	return 0;
}

SEC("uretprobe")
int leave_single(struct pt_regs *ctx)
{
	leave(ctx);
	return 0;
}

/* Writes out the open calls of a thread that ends, and its name if that has changed. */
SEC("raw_tp/sched_process_exit")
int thread_exit(void *ctx)
{
	u64 id = current_id();
	struct thread *t = map_lookup(&threads, &id);
	u32 i, top;

	(void)ctx;
	process_exit(id >> 32);
	if (!t)
		return 0;
	if (t->announced != UNKNOWN)
		announce(t, id);
	BOUNDED
	for (i = 0; i < MAX_DEPTH; i++) {
		top = t->depth - 1;
		if (top >= MAX_DEPTH)
			break;
		t->frames[top].event.flags |= UNFINISHED;
		emit(&t->frames[top].event);
		t->depth = top;
	}
	map_delete(&threads, &id);
	return 0;
}

/* The floor that the probes' cost is measured against: both traps and nothing else. */
SEC("uprobe.multi")
int empty_enter(struct pt_regs *ctx)
{
	(void)ctx;
	return 0;
}

SEC("uretprobe.multi")
int empty_leave(struct pt_regs *ctx)
{
	(void)ctx;
	return 0;
}

SEC("uprobe.session")
int empty_session(struct pt_regs *ctx)
{
	(void)ctx;
	return 0;
}
