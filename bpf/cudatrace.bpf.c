//go:build ignore
/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
/*
 * Entry and return probes of CUDA functions, paired in the kernel.
 *
 * The entry probe notes the call on its thread's stack of open calls, the return probe
 * completes it. Both write into memory that user space maps (store.h): the innermost
 * open call, if it is a plain one, lies where its event will be, behind the thread's
 * events, so that its return only has to add the end. Other open calls lie in frames.
 * Either can be read by user space, so that a call that never returns is not lost: it
 * is still there when the recording ends, or is written out when its thread does.
 *
 * An open call has the stack pointer at entry, which tells calls left without a return
 * (longjmp, an exception) from live ones: stacks grow down, so a live caller's
 * pointer is never below that of what it called.
 */
#include "kernel.h"
#include "ids.h"
#include "ends.h"
#include "tree.h"
#include "store.h"
#include "cookie.h"
#include "callers.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MAX_DEPTH 8
#define MAX_FUNCTIONS 1024
#define MAX_STACK_ARGS 8
#define BLOCK_SIZE 128
#define MAX_NESTED 32 /* a power of two; the kernel sees 64 returns of a thread at most, and calls need some */

struct frame {
	u64 sp;
	u32 later;  /* the recipe's */
	u32 trying; /* it is counted in the target */
	u64 site;   /* the return address, 0 when not known */
	struct event event;
};

/*
 * What else a thread's probes need, at the index of its slot. words and block are one
 * area that recipes index.
 */
struct thread {
	u64 words[REGISTER_ARGS + MAX_STACK_ARGS <= 16 ? 16 : -1]; /* the call's arguments */
	u64 block[BLOCK_SIZE / 8];                                 /* start of a struct that one points to */
	u64 pad;                                                   /* a load of 8 bytes at the last 4 stays inside */
	struct window window;
	struct frame frames[MAX_DEPTH];
	u64 functions[MAX_NESTED]; /* stack pointers at entry of the open functions of any library */
	u32 nested;		   /* their number */
	u32 pad2;
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
	u8 failed; /* with quiet: calls that fail are wanted */
	u8 always; /* calls are wanted while recording is paused too */
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
	u64 chain;
	u64 handle;
	u64 of;
	char name[];
};
_Static_assert(__builtin_offsetof(struct symbol_event, length) == 28, "length");
_Static_assert(__builtin_offsetof(struct symbol_event, handle) == 40, "handle");
_Static_assert(__builtin_offsetof(struct symbol_event, name) == 56, "name");

/* Set when a process is recorded between the calls that start and stop its profiler. */
const volatile u8 capture_range = 0;

/* Kernels' names. */
struct {
	MAP_TYPE(MAP_RINGBUF);
	MAP_ENTRIES(4096);
} names SEC(".maps");

struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(4096); /* as many as there are slots */
	MAP_KEY(u32);
	MAP_VALUE(struct thread);
} threads SEC(".maps");

/* A process that is recorded. */
struct target {
	u32 range;  /* with capture_range: 1 within the range; TARGET_CALIBRATION */
	u32 place;  /* in the table of epochs */
	u32 execs; /* programs that it has run by exec */
	u32 bare;  /* those without the probes that there were: see process_exec */
	u64 since; /* CLOCK_MONOTONIC, ns, of the last exec; 0 before the first */
	u32 launched; /* 1: a launch of the program has reached the driver */
	u32 trying;   /* the runtime's launches that are open and began before that */
	u32 list;     /* enum list_state, when the dynamic linker told it last */
	u32 pad;
};

struct {
	MAP_TYPE(MAP_HASH);
	MAP_ENTRIES(MAX_PROCESSES);
	MAP_KEY(u32); /* pid */
	MAP_VALUE(struct target);
} targets SEC(".maps");

#define TARGET_CALIBRATION 2 /* the process calls to measure the price of calls */

/* Counts a call of a target that cannot be recorded. */
NOINLINE void lose_call(u64 id, u32 cause)
{
	u32 pid = id >> 32;
	struct target *target = map_lookup(&targets, &pid);

	count(target && target->range == TARGET_CALIBRATION ? LOST_CALIBRATION : cause);
}

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

/* Gives a slot that was claimed to a thread. */
GLOBAL u32 fill_slot(u32 index, u64 id, u32 place)
{
	struct slot *s = slot_at(index);
	struct thread *t;

	if (!s)
		return NO_SLOT;
	s->index = index & slot_mask;
	clear_slot(s);
	t = map_lookup(&threads, &s->index);
	if (t)
		t->nested = 0;
	s->place = place;
	PUBLISH(&s->id, id);
	return s->index;
}

#define CLAIMS 8 /* against other threads that claim the same slot at the same time */

/* The index of a new thread's slot; NO_SLOT when its process is no target. */
GLOBAL u32 add_slot(u64 id)
{
	u32 pid = id >> 32, i;
	struct target *target = map_lookup(&targets, &pid);

	if (!target)
		return NO_SLOT;
	BOUNDED
	for (i = 0; i < CLAIMS; i++) {
		u32 index = search_slots(id, 0);
		struct slot *s = index == NO_SLOT ? 0 : slot_at(index);

		if (!s)
			break;
		if (claim(s, 0))
			return fill_slot(index, id, target->place);
	}
	lose_call(id, LOST_THREAD_TABLE);
	return NO_SLOT;
}

INLINE struct slot *slot_of(u64 id)
{
	struct slot *s = find_slot(id);
	u32 index;

	if (s)
		return s;
	index = add_slot(id);
	return index == NO_SLOT ? 0 : slot_at(index);
}

/* Tells user space the thread's name, which is 16 bytes: two arguments. */
GLOBAL int announce(u32 slot, u64 id)
{
	struct slot *s = slot_at(slot);
	struct event e = {};

	if (!s)
		return 0;
	set_head(&e, id, 0, 3, THREAD_EVENT);
	current_comm(e.args, 16);
	if (s->announced == ANNOUNCED && s->comm[0] == e.args[0] && s->comm[1] == e.args[1])
		return 0;
	s->comm[0] = e.args[0];
	s->comm[1] = e.args[1];
	e.args[2] = namespace_tid();
	e.enter = ktime_ns();
	s->announced = put(s, &e) ? ANNOUNCED : MISSED;
	return 0;
}

INLINE struct thread *thread_at(u32 slot)
{
	return map_lookup(&threads, &slot);
}

/*
 * The runtime may refuse a launch without a word to the driver. So the runtime's launches are probed as well, and
 * recorded where they fail, until a launch of the program reaches the driver. One launch counts if it began before
 * that, whenever it ends: user space removes these probes when the program has launched and no such launch is open.
 */
INLINE int has_launched(u32 pid)
{
	struct target *target = map_lookup(&targets, &pid);

	return !target || *(volatile u32 *)&target->launched;
}

/* Counts a launch of the runtime that begins; 0 if it began too late. */
NOINLINE int begin_try(u32 pid)
{
	struct target *target = map_lookup(&targets, &pid);

	if (!target)
		return 0;
	__sync_fetch_and_add(&target->trying, 1);
	if (!__sync_fetch_and_add(&target->launched, 0))
		return 1;
	__sync_fetch_and_add(&target->trying, -1);
	return 0;
}

NOINLINE void end_try(u32 pid)
{
	struct target *target = map_lookup(&targets, &pid);

	if (target)
		__sync_fetch_and_add(&target->trying, -1);
}

/* A launch reaches the driver; s is the thread's slot, 0 if it has none. */
NOINLINE void launch_reaches(struct slot *s, u64 id)
{
	u32 pid = id >> 32;
	struct target *target;

	if (s && !s->unlaunched)
		return;
	target = map_lookup(&targets, &pid);
	if (!target)
		return;
	if (!target->launched)
		__sync_lock_test_and_set(&target->launched, 1);
	if (s)
		s->unlaunched = 0;
}

/* Sends an open call that lies in a frame, which is left. */
GLOBAL int emit(u32 slot, u32 frame)
{
	struct slot *s = slot_at(slot);
	struct thread *t = thread_at(slot);

	if (!s || !t || frame >= MAX_DEPTH)
		return 0;
	struct frame *f = &t->frames[frame];
	if (!(f->event.flags & QUIET) && !put(s, &f->event))
		count(LOST_BUFFER_FULL);
	if (f->trying)
		end_try(f->event.pid);
	return 0;
}

/* Moves the call that lies behind the thread's events into a frame, for others to come there. */
GLOBAL int spill(u32 slot)
{
	struct slot *s = slot_at(slot);
	struct thread *t = thread_at(slot);
	struct event *e;
	u32 top;

	if (!s || !t || !s->tail)
		return 0;
	s->tail = 0;
	e = tail_of(s);
	top = s->depth - 1;
	if (e && top < MAX_DEPTH) {
		t->frames[top].sp = s->sp;
		t->frames[top].later = 0;
		t->frames[top].trying = 0;
		__builtin_memcpy(&t->frames[top].event, e, sizeof(*e));
	}
	return 0;
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
GLOBAL int abandon(u32 slot, u64 sp)
{
	struct slot *s = slot_at(slot);
	struct thread *t = thread_at(slot);
	u32 i, top;

	if (!s || !t)
		return 0;
	BOUNDED
	for (i = 0; i < MAX_DEPTH; i++) {
		top = s->depth - 1;
		if (top >= MAX_DEPTH)
			return 0;
		struct frame *f = &t->frames[top];
		if (f->sp >= sp)
			return 0;
		f->event.flags |= NO_RETURN;
		emit(slot, top);
		s->depth = top;
	}
	return 0;
}

/* Removes what lies between the new call and its caller. */
INLINE void unwind(struct pt_regs *ctx, struct slot *s)
{
	struct thread *t = thread_at(s->index);
	u64 sp = STACK_POINTER(ctx);
	u32 top;

	spill(s->index);
	top = s->depth - 1;
	if (!t || top >= MAX_DEPTH || t->frames[top].sp > sp)
		return;
	if (t->frames[top].sp == sp && entered_by_jump(ctx))
		return;
	abandon(s->index, sp + 1);
}

/* Reads a number of bytes of the stack into the window. Returns 0 when they cannot be read. */
INLINE u32 read_stack(struct window *w, u64 sp, u32 size)
{
	BARRIER_ON(size); /* the verifier wants the bounds on this register */
	size = ((size - 1) & (sizeof(w->words) - 1)) + 1;
	return read_user(w->words, size, (void *)sp) ? 0 : size;
}

/* The return address of the innermost open call, if the call is recorded only when it fails. */
INLINE u64 hidden_address(struct slot *s, struct thread *t)
{
	u32 top = s->depth - 1;

	return top < MAX_DEPTH && t->frames[top].event.flags & QUIET ? t->frames[top].site : 0;
}

/*
 * Reads the thread's window of its stack, with the words that a plain function's cookie wants, and returns the number
 * of the chain above the call, 0 when not known. User space knows the chain then. fp and link are registers at entry.
 * Near the top of a stack there is less than the thread's chains need elsewhere.
 */
GLOBAL u64 chain_above(u32 slot, u64 sp, u64 fp, u64 link, u64 cookie)
{
	u32 stack = COOKIE_STACK_WORDS(cookie), least = STACK_ARGS_AT + stack * 8;
	struct thread *t = thread_at(slot);
	struct slot *s = slot_at(slot);
	struct caller_table *c;
	struct window *w;
	u64 hash;

	BARRIER_ON(link); /* without a use of it callers would leave its register unset, which the verifier forbids */
	if (!t || !s || (!stack && !COOKIE_CHAIN(cookie)))
		return 0;
	w = &t->window;
	w->chain[0] = 0;
	w->reach = read_stack(w, sp, s->reach > least ? s->reach : least);
	if (w->reach < least)
		w->reach = read_stack(w, sp, least);
	if (w->reach < least) {
		if (stack)
			count(READ_FAULT);
		return 0;
	}
	c = COOKIE_CHAIN(cookie) ? known_callers() : 0;
	if (!c)
		return 0;
	w->hidden = hidden_address(s, t);
	w->chain[0] = unhidden(RETURN_POPS ? w->words[0] : CODE_ADDRESS(link), w, sp);
	if (!w->chain[0])
		return 0;
	hash = follow_chain(s, c, w, sp, fp, COOKIE_CHAIN(cookie));
	if (*known_chain(c, hash) != hash)
		define_chain(s, c, w, hash, COOKIE_FUNCTION(cookie));
	return hash;
}

INLINE u64 chain_of(struct pt_regs *ctx, struct slot *s, u64 cookie)
{
	return chain_above(s->index, STACK_POINTER(ctx), FRAME_POINTER(ctx), LINK(ctx), cookie);
}

/* Brings all that a recipe copies from into words and block. */
INLINE void gather(struct pt_regs *ctx, struct thread *t, const struct recipe *r)
{
	u32 size = r->stack_args * 8;
	u64 base;

	LOAD_LESS_REGISTERS(t->words, ctx);
	LOAD_MORE_REGISTERS(t->words, ctx);
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

/*
 * What becomes of an argument's word by its operation, which is half of struct op, at entry (when is OP_FIELD) or return
 * (OP_OUT) of a call that returned ret.
 */
GLOBAL u64 value_of(u64 word, u64 mask, u64 how, u32 when, u32 ret)
{
	u32 kind = how >> 16 & 0xff;
	u64 value = 0;

	if (kind == OP_COPY)
		return word & mask;
	if (kind != when)
		return word;
	if (kind == OP_OUT && (ret || !word))
		return 0;
	if (read_user(&value, mask >> 32 ? 8 : 4, (void *)(word + (how >> 32))))
		count(READ_FAULT);
	return value;
}

INLINE void record_args(struct thread *t, struct event *e, const struct recipe *r)
{
	u32 i;

	BOUNDED
	for (i = 0; i < MAX_ARGS && i < r->nargs; i++) {
		const struct op *op = &r->ops[i];
		u64 word = *(u64 *)((u8 *)t->words + (op->source & SOURCE_MASK));

		e->args[i] = value_of(word, op->mask, *(u64 *)&op->source, OP_FIELD, 0);
	}
}

/* Switches a process's range. */
NOINLINE void set_range(u32 pid, u32 on)
{
	struct target *target = map_lookup(&targets, &pid);

	if (target)
		target->range = on;
}

/* Whether calls of the process are recorded now. */
INLINE int recording(u32 pid)
{
	u32 zero = 0, *value = map_lookup(&paused, &zero);
	struct target *target;

	if (value && *value)
		return 0;
	if (!capture_range)
		return 1;
	target = map_lookup(&targets, &pid);
	return target && target->range;
}

/*
 * A call that is not recorded. Frames that a call left without a return are removed also then, and a launch reaches
 * the driver.
 */
NOINLINE void pass_over(struct pt_regs *ctx, u64 id, u64 cookie)
{
	struct slot *s = find_slot(id);

	if (s && s->depth)
		unwind(ctx, s);
	if (cookie >> COOKIE_LAUNCH_BIT & 1)
		launch_reaches(s, id);
}

/* Makes room for a further call. Returns 0 when there is none. */
NOINLINE int prepare(struct pt_regs *ctx, struct slot *s, u64 id, u64 cookie, u32 quiet)
{
	if (cookie >> COOKIE_LAUNCH_BIT & 1)
		launch_reaches(s, id);
	unwind(ctx, s);
	if (s->announced != ANNOUNCED && !quiet)
		announce(s->index, id);
	if (s->depth < MAX_DEPTH)
		return 1;
	if (!quiet)
		count(LOST_NESTING);
	return 0;
}

/* The flags of a call that begins. */
INLINE u32 special_flags(const struct recipe *r, u32 recorded)
{
	u32 flags = r->quiet || !recorded ? QUIET : 0;

	return (r->symbol || r->failed) && recorded ? flags | FAILURE : flags;
}

/* The entry of a function that is more than a plain one. */
NOINLINE int enter_special(struct pt_regs *ctx, u64 id, u64 cookie)
{
	u32 func = COOKIE_FUNCTION(cookie);
	struct recipe *r = map_lookup(&recipes, &func);
	struct slot *s;
	struct thread *t;
	struct frame *f;
	u32 depth, flags, quiet;

	if (!r)
		return 1;
	if (capture_range && r->range & RANGE_END)
		set_range(id >> 32, 0);
	flags = special_flags(r, recording(id >> 32) || r->always);
	quiet = flags & QUIET;
	if ((flags == QUIET && !r->symbol && !(r->range & RANGE_BEGIN)) || (r->failed && has_launched(id >> 32))) {
		pass_over(ctx, id, cookie);
		return 1;
	}
	s = slot_of(id);
	if (!s || !prepare(ctx, s, id, cookie, quiet))
		return 1;
	t = thread_at(s->index);
	depth = s->depth;
	if (!t || depth >= MAX_DEPTH)
		return 1;
	f = &t->frames[depth];
	f->sp = STACK_POINTER(ctx);
	f->later = r->later;
	f->trying = r->failed;
	set_head(&f->event, id, func, r->nargs, flags);
	f->site = 0;
	if (flags != QUIET) {
		f->event.chain = chain_of(ctx, s, cookie);
		f->site = COOKIE_CHAIN(cookie) ? t->window.chain[0] : 0; /* also where the chain is not known */
	}
	gather(ctx, t, r);
	record_args(t, &f->event, r);
	if (r->failed && !begin_try(id >> 32))
		return 1;
	s->depth = depth + 1;
	f->event.enter = ktime_ns();
	return 0;
}

/* Reads the words of a plain function's event, after the thread's window was read. Returns the number of words. */
INLINE u32 read_words(struct pt_regs *ctx, struct slot *s, u64 *words, u64 cookie)
{
	u32 stack = COOKIE_STACK_WORDS(cookie), block = COOKIE_BLOCK_WORDS(cookie);
	/* without a branch: what follows would be verified once for each number */
	u32 n = LESS_REGISTERS + (cookie / COOKIE_ALL_REGISTERS & 1) * (REGISTER_ARGS - LESS_REGISTERS);
	struct thread *t = stack ? thread_at(s->index) : 0;

	LOAD_LESS_REGISTERS(words, ctx);
	LOAD_MORE_REGISTERS(words, ctx);
	if (t)
		__builtin_memcpy(words + n, t->window.words + STACK_ARGS_AT / 8, 7 * 8);
	n += stack;
	if (block && read_user(words + n, block * 8, (void *)(words[COOKIE_BLOCK_REGISTER(cookie)] + COOKIE_BLOCK_OFFSET(cookie))))
		count(READ_FAULT);
	return n + block;
}

/* Notes a call of a plain function at the tail. Returns 0 when there is no room. */
INLINE struct event *note_call(struct pt_regs *ctx, struct slot *s, u64 id, u64 cookie)
{
	u64 chain = chain_of(ctx, s, cookie);
	struct event *e = room(s);

	if (!e)
		return 0;
	set_head(e, id, COOKIE_FUNCTION(cookie), 0, RAW);
	e->chain = chain;
	e->nargs = read_words(ctx, s, e->args, cookie);
	return e;
}

/* Whether the call that begins has been noted: for a while its function has probes for whole calls, too. */
INLINE int noted(struct pt_regs *ctx, struct slot *s, u64 cookie)
{
	struct event *e = s->tail && s->sp == STACK_POINTER(ctx) ? tail_of(s) : 0;

	return e && e->func == COOKIE_FUNCTION(cookie);
}

/* Returns 0 when the call's return is wanted. */
INLINE int enter(struct pt_regs *ctx, u64 cookie)
{
	u64 id = current_id();
	struct slot *s;
	struct event *e;

	if (!(cookie & COOKIE_PLAIN))
		return enter_special(ctx, id, cookie);
	if (!(cookie & COOKIE_ALWAYS) && !recording(id >> 32)) {
		pass_over(ctx, id, cookie);
		return 1;
	}
	s = slot_of(id);
	if (!s || (cookie >> COOKIE_ALONE_BIT & 1 && noted(ctx, s, cookie)))
		return 1;
	if ((s->depth || s->announced != ANNOUNCED || (cookie >> COOKIE_LAUNCH_BIT & s->unlaunched)) && !prepare(ctx, s, id, cookie, 0))
		return 1;
	e = note_call(ctx, s, id, cookie);
	if (!e) {
		lose_call(id, LOST_BUFFER_FULL);
		return 1;
	}
	e->enter = ktime_ns();
	if (cookie >> COOKIE_ALONE_BIT & 1) {
		publish(s, e->nargs);
		return 1;
	}
	s->sp = STACK_POINTER(ctx);
	s->tail = 1;
	s->depth++;
	return 0;
}

/* Replaces each out-pointer by what it points to; by 0 when the call failed. */
INLINE void record_out_values(struct event *e, const struct recipe *r)
{
	u32 i;

	BOUNDED
	for (i = 0; i < MAX_ARGS && i < r->nargs; i++) {
		const struct op *op = &r->ops[i];

		e->args[i] = value_of(e->args[i], op->mask, *(u64 *)&op->source, OP_OUT, e->ret);
	}
}

/*
 * Writes what a handle stands for, with a name of at most size bytes. Returns the
 * name's length with its NUL, size when the name is longer. Then nothing is written,
 * unless it is to be cut.
 */
INLINE long write_symbol(struct event *e, u32 kind, const u32 size, int cut)
{
	struct symbol_event *s = ringbuf_reserve(&names, sizeof(*s) + size, 0);
	long length = 0;

	if (!s) {
		count(LOST_BUFFER_FULL);
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
	s->chain = 0;
	s->handle = e->args[0];
	s->of = kind == SYMBOL_DERIVED ? e->args[1] : 0;
	ringbuf_submit(s, RINGBUF_NO_WAKEUP);
	return length;
}

/* Tells user space what a handle stands for. */
NOINLINE void tell_symbol(struct event *e, u32 kind)
{
	char next = 0;

	if (write_symbol(e, kind, SHORT_NAME, 0) != SHORT_NAME)
		return;
	if (write_symbol(e, kind, MAX_NAME, 1) != MAX_NAME)
		return;
	read_user(&next, 1, (void *)(e->args[2] + MAX_NAME - 1));
	if (next)
		count(CUT_NAME);
}

/* A call that was not wanted before it failed. */
INLINE void want(struct slot *s, struct event *e)
{
	e->flags &= ~QUIET;
	if (s->announced != ANNOUNCED)
		announce(s->index, s->id);
}

/* The return of a call that lies in a frame, or of one that is not recorded; sp is the stack pointer at its entry. */
NOINLINE void leave_special(struct pt_regs *ctx, struct slot *s, u64 cookie, u64 sp, u64 now)
{
	u32 func = COOKIE_FUNCTION(cookie), top;
	struct thread *t = thread_at(s->index);
	struct recipe *r;
	struct frame *f;

	spill(s->index);
	abandon(s->index, sp);
	top = s->depth - 1;
	if (!t || top >= MAX_DEPTH)
		return;
	f = &t->frames[top];
	if (f->sp != sp || f->event.func != func)
		return; /* the call was not recorded: it began before the probe did, or was nested too deep */
	f->event.exit = now;
	f->event.ret = (s32)RETURN_VALUE(ctx);
	if (f->event.ret && f->event.flags & FAILURE)
		want(s, &f->event);
	r = f->later ? map_lookup(&recipes, &func) : 0;
	if (r) {
		record_out_values(&f->event, r);
		if (capture_range && r->range & RANGE_BEGIN)
			set_range(f->event.pid, 1);
		if (r->symbol && !f->event.ret)
			tell_symbol(&f->event, r->symbol);
	}
	emit(s->index, top);
	s->depth = top;
}

/* The end of a call; sp is the stack pointer at its entry. */
INLINE void leave(struct pt_regs *ctx, u64 cookie, u64 sp)
{
	u64 now = ktime_ns();
	struct slot *s = find_slot(current_id());
	struct event *e;

	if (!s)
		return;
	e = s->tail && s->sp == sp ? tail_of(s) : 0;
	if (!e || e->func != COOKIE_FUNCTION(cookie)) {
		leave_special(ctx, s, cookie, sp, now);
		return;
	}
	e->exit = now;
	e->ret = (s32)RETURN_VALUE(ctx);
	s->tail = 0;
	s->depth--;
	publish(s, e->nargs);
}

/*
 * Functions of any library. They have numbers from MAX_FUNCTIONS on. Their entry and their return are events of their
 * own, told at once, with the stack pointer at entry in the place of the chain: user space pairs them. So they may be
 * open for hours, and nest as deeply as they like, and the frames stay for calls.
 */
struct rate {
	u64 window; /* number of the time in which spent counts */
	u64 spent;
};

struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(1);
	MAP_KEY(u32);
	MAP_VALUE(struct rate);
} rates SEC(".maps");

#define RATE_WINDOW 100000000 /* ns */

/* Most entries of such functions in a window, of all processes together. */
const volatile u32 rate_most = 10000;

/* Whether one more function may be told. */
INLINE int spend(void)
{
	u32 zero = 0;
	u64 window = ktime_ns() / RATE_WINDOW;
	struct rate *r = map_lookup(&rates, &zero);

	if (!r)
		return 0;
	if (r->window != window) {
		r->window = window;
		r->spent = 0;
	}
	if (*(volatile u64 *)&r->spent >= rate_most)
		return 0;
	__sync_fetch_and_add(&r->spent, 1);
	return 1;
}

/* Forgets the open functions whose frames lie below sp: they have been left. */
NOINLINE void close_functions(struct thread *t, u64 sp)
{
	u32 i, n = t->nested;

	BOUNDED
	for (i = 0; i < MAX_NESTED; i++) {
		if (!n || t->functions[(n - 1) & (MAX_NESTED - 1)] >= sp)
			break;
		n--;
	}
	t->nested = n;
}

/* Notes that a function is open. Returns 0 if too many are. One that another jumped to has the stack pointer of that one. */
NOINLINE int open_function(struct slot *s, u64 sp)
{
	struct thread *t = thread_at(s->index);
	u32 n;

	if (!t)
		return 0;
	close_functions(t, sp);
	n = t->nested;
	if (n && t->functions[(n - 1) & (MAX_NESTED - 1)] == sp)
		return 1;
	if (n >= MAX_NESTED)
		return 0;
	t->functions[n & (MAX_NESTED - 1)] = sp;
	t->nested = n + 1;
	return 1;
}

/* Notes that the function whose frame lies at sp ends. Returns 0 if it is not known to be open. */
NOINLINE int close_function(struct thread *t, u64 sp)
{
	u32 n;

	close_functions(t, sp);
	n = t->nested;
	if (!n || t->functions[(n - 1) & (MAX_NESTED - 1)] != sp)
		return 0;
	t->nested = n - 1;
	return 1;
}

/* Makes room for an event of a function, with the head of one. */
INLINE struct event *function_event(struct slot *s, u64 id, u64 cookie, u32 nargs, u32 flags)
{
	struct event *e;

	spill(s->index);
	if (s->announced != ANNOUNCED)
		announce(s->index, id);
	e = room(s);
	if (!e) {
		count(LOST_FUNCTION_BUFFER);
		return 0;
	}
	set_head(e, id, COOKIE_FUNCTION(cookie), nargs, flags);
	return e;
}

INLINE int enter_function(struct pt_regs *ctx, u64 cookie)
{
	u64 id = current_id();
	u32 alone = cookie >> COOKIE_ALONE_BIT & 1;
	struct slot *s;
	struct event *e;

	if (!recording(id >> 32))
		return 0;
	s = slot_of(id);
	if (!s)
		return 0;
	if (!spend()) {
		count(LOST_FUNCTION_RATE);
		return 0;
	}
	if (!alone && !open_function(s, STACK_POINTER(ctx))) {
		count(LOST_FUNCTION_NESTING);
		return 0;
	}
	e = function_event(s, id, cookie, COOKIE_WORDS(cookie), alone ? NO_RETURN : 0);
	if (!e)
		return 0;
	LOAD_LESS_REGISTERS(e->args, ctx);
	LOAD_MORE_REGISTERS(e->args, ctx);
	e->chain = STACK_POINTER(ctx);
	e->enter = ktime_ns();
	publish(s, e->nargs);
	return 0;
}

/* A return instruction of the function: the stack pointer is that at entry. */
INLINE int leave_function(struct pt_regs *ctx, u64 cookie)
{
	u64 now = ktime_ns(), id = current_id();
	struct slot *s = find_slot(id);
	struct thread *t = s ? thread_at(s->index) : 0;
	struct event *e;

	if (!t || !close_function(t, STACK_POINTER(ctx)))
		return 0;
	e = function_event(s, id, cookie, 1, 0);
	if (!e)
		return 0;
	e->enter = now;
	e->exit = now;
	e->chain = STACK_POINTER(ctx);
	e->args[0] = RETURN_VALUE(ctx);
	publish(s, 1);
	return 0;
}

INLINE int function(struct pt_regs *ctx)
{
	u64 cookie = attach_cookie(ctx);

	return cookie & COOKIE_RETURN ? leave_function(ctx, cookie) : enter_function(ctx, cookie);
}

/* From now on addresses in the process may lie in another file. */
INLINE int begin_epoch(struct target *target)
{
	struct caller_table *c = known_callers();

	if (c && target)
		__sync_fetch_and_add(epoch_at(c, target->place), 1);
	return 0;
}

/* What the dynamic linker does with its list of libraries. */
enum list_state {
	LIST_CONSISTENT = 0, /* it has done it */
	LIST_ADD = 1,
	LIST_DELETE = 2,
};

/* Its description of the list, struct r_debug. */
struct library_list {
	u32 version; /* 2: there are other lists, of libraries that dlmopen has loaded */
	u32 pad;
	u64 first, function;
	u32 state; /* enum list_state */
};

/*
 * The dynamic linker calls an empty function, for debuggers, before it changes its list of libraries and when it has.
 * It holds its lock from the one call to the other. Between the two calls of a deletion the libraries go: chains
 * that are walked meanwhile get a new number at the second. The cookie says where the list is described, seen from the
 * function. Where there are other lists, a call without a change of this one counts as a deletion.
 */
INLINE int list_changes(struct pt_regs *ctx)
{
	u32 pid = current_id() >> 32, before;
	struct target *target = map_lookup(&targets, &pid);
	struct library_list list;

	if (!target)
		return 0;
	if (read_user(&list, sizeof(list), (void *)(INSTRUCTION(ctx) + attach_cookie(ctx))))
		list.state = LIST_DELETE;
	before = target->list;
	target->list = list.state;
	if (list.state == LIST_ADD || (list.state == LIST_CONSISTENT && before == LIST_ADD))
		return 0;
	if (list.state == LIST_CONSISTENT && before == LIST_CONSISTENT && list.version < 2)
		return 0; /* a library that others brought is opened by itself */
	return begin_epoch(target);
}

SEC("uprobe.multi")
int list_multi(struct pt_regs *ctx)
{
	return list_changes(ctx);
}

SEC("uprobe")
int list_single(struct pt_regs *ctx)
{
	return list_changes(ctx);
}

/*
 * A process runs another program by exec. The new program may call CUDA in libraries that are probed
 * already. A probe is tied to the task of the process's first thread: if another thread calls exec, its task
 * becomes the first thread, and the probes stay with the old task, which is gone.
 */
SEC("raw_tp/sched_process_exec")
int process_exec(struct raw_tracepoint *ctx)
{
	u32 pid = current_id() >> 32, number_before = ctx->args[1];
	struct target *target = map_lookup(&targets, &pid);
	struct slot *s = find_slot(current_id());

	if (s)
		s->unlaunched = 1;
	note_exec(pid);
	if (target) {
		target->since = ktime_ns();
		target->execs++;
		target->launched = 0;
		target->trying = 0;
		target->list = LIST_CONSISTENT;
		if (number_before != (u32)current_pid_tgid())
			target->bare++;
		if (target->range != TARGET_CALIBRATION)
			target->range = 0; /* that of the program before */
	}
	return begin_epoch(target);
}

/* Takes a site of a function; the cookie says what the site is. Behind a return the stack pointer has moved. */
INLINE int call(struct pt_regs *ctx)
{
	u64 cookie = attach_cookie(ctx), sp = STACK_POINTER(ctx);

	if (cookie & (COOKIE_RETURN | COOKIE_BEHIND))
		leave(ctx, cookie, cookie & COOKIE_BEHIND ? sp - RETURN_POPS : sp);
	else
		enter(ctx, cookie);
	return 0;
}

/* Linux 6.6: many functions a link. */
SEC("uprobe.multi")
int call_multi(struct pt_regs *ctx)
{
	return call(ctx);
}

SEC("uprobe.multi")
int function_multi(struct pt_regs *ctx)
{
	return function(ctx);
}

/* Linux 5.15: one perf event a function. */
SEC("uprobe")
int call_single(struct pt_regs *ctx)
{
	return call(ctx);
}

SEC("uprobe")
int function_single(struct pt_regs *ctx)
{
	return function(ctx);
}

/* Writes out the open calls of a thread that ends, and its name if that has changed. */
SEC("raw_tp/sched_process_exit")
int thread_exit(void *ctx)
{
	u64 id = current_id();
	struct slot *s = find_slot(id);
	struct thread *t;
	u32 i, top;

	(void)ctx;
	process_exit(id >> 32);
	if (!s || !claim(s, id))
		return 0;
	spill(s->index);
	if (s->announced != UNKNOWN)
		announce(s->index, id);
	t = thread_at(s->index);
	BOUNDED
	for (i = 0; t && i < MAX_DEPTH; i++) {
		top = s->depth - 1;
		if (top >= MAX_DEPTH)
			break;
		t->frames[top].event.flags |= UNFINISHED;
		emit(s->index, top);
		s->depth = top;
	}
	release(s);
	return 0;
}

/* The floor that the probes' cost is measured against: both traps and nothing else. */
SEC("uprobe.multi")
int empty_multi(struct pt_regs *ctx)
{
	(void)ctx;
	return 0;
}
