/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
/*
 * Where a call was made: the chain of return addresses above it. An event has only a
 * number for its chain, a hash. When a chain is new, an event with its addresses goes in
 * front of the call. Calls of other threads may reach user space before that event. User
 * space maps the memory in which the known chains are.
 *
 * Frame pointers lead from one return address to the next. Code without frame pointers
 * has something else in their register, which would make each of its chains a new one.
 * Therefore user space says for an innermost return address, a site, how many addresses
 * are of use above it.
 */
#ifndef CUDATRACE_CALLERS_H
#define CUDATRACE_CALLERS_H

#include "store.h"

#define MAX_CHAIN 7	     /* return addresses of a chain */
#define CHAIN_BITS 14	     /* of the index of a known chain */
#define SITE_BITS 11	     /* of the index of a site */
#define SITE_LENGTH 7	     /* the bits of a site that have the number of addresses; the others are of its hash */
#define WINDOW_WORDS 64
#define MAX_FRAME (1u << 20) /* bytes from one frame to the next */
#define MAX_PROCESSES 4096   /* processes that are recorded at the same time */

/*
 * The epoch of a process is a number that no other process has had. While it stays, addresses in the process mean
 * the same, except those that meant nothing.
 */
struct caller_table {
	u64 epochs[MAX_PROCESSES]; /* by the process's place */
	u64 chains[1 << CHAIN_BITS];
	u64 sites[1 << SITE_BITS];
};

struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(1);
	MAP_KEY(u32);
	MAP_VALUE(struct caller_table);
	MAP_FLAGS(MMAPABLE);
} callers SEC(".maps");

INLINE struct caller_table *known_callers(void)
{
	u32 zero = 0;

	return map_lookup(&callers, &zero);
}

INLINE u64 mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

INLINE u64 *epoch_at(struct caller_table *c, u32 place) { return &c->epochs[place & (MAX_PROCESSES - 1)]; }

/* The hash of a chain that has only the site yet. The upper half of id is the process. */
INLINE u64 site_hash(u64 id, u64 epoch, u64 site) { return mix(id >> 32 ^ epoch, site); }

/* How many addresses the chain above a site has; most at a site that user space does not know. */
INLINE u32 chain_length(struct caller_table *c, u64 hash, u32 most)
{
	u64 site = c->sites[hash >> (64 - SITE_BITS)];

	return (site ^ hash) & ~(u64)SITE_LENGTH ? most : site & SITE_LENGTH;
}

/* A frame that a frame pointer leads to. */
struct caller_frame {
	u64 next;
	u64 address;
};

/*
 * The words of a thread's stack that are read at once, because each read has its price: those
 * up to the last frame that a chain of the thread needed.
 */
struct window {
	u64 words[WINDOW_WORDS];
	u64 site;   /* the innermost return address, 0 when not known */
	u64 hidden; /* the return address of the innermost open call, 0 unless the call is quiet */
	u32 reach;  /* bytes of words that were read */
	u32 pad;
};

#define MAX_REPLACED 16 /* return addresses of a thread that the kernel has replaced */

/*
 * The return address that the kernel has replaced at a place of the current thread's stack, 0 if it has none there.
 * Where one function jumped to another, the outer one's is the address. Some other recorder's probe may be
 * why: the kernel replaces the address in all processes that run into the instruction.
 */
GLOBAL u64 replaced(u64 at)
{
	struct task_struct *task = (void *)current_task();
	struct return_instance *r = 0;
	struct uprobe_task *utask = 0;
	u32 i;

	read_kernel(&utask, sizeof(utask), FIELD(task, utask));
	if (utask)
		read_kernel(&r, sizeof(r), FIELD(utask, return_instances));
	BOUNDED
	for (i = 0; i < MAX_REPLACED && r; i++) {
		u64 stack = 0, address = 0;

		read_kernel(&stack, sizeof(stack), FIELD(r, stack));
		read_kernel(&address, sizeof(address), FIELD(r, orig_ret_vaddr));
		if (REPLACED_AT(stack, at) && address & 0xfff)
			return CODE_ADDRESS(address);
		read_kernel(&r, sizeof(r), FIELD(r, next));
	}
	return 0;
}

/*
 * What a return address on the stack stands for. That of a return-probed call is the
 * start of the kernel's trampoline, a page. A recorded call has a chain of its own, which
 * tells where it was made. A quiet one has none, so its return address is put back. Two quiet calls
 * share a return address where one function jumps to the other, as __cudaLaunchKernel does.
 */
INLINE u64 unhidden(u64 address, const struct window *w, u64 at)
{
	u64 original;

	if (address & 0xfff)
		return address;
	original = replaced(at);
	if (!original)
		original = w->hidden;
	return original ? original : address;
}

/* Reads the frame at fp, if it can be one above another. Returns 0 when it is not. */
INLINE int read_frame(struct caller_frame *f, u64 fp, u64 above)
{
	if (fp <= above || fp - above > MAX_FRAME || fp & 7)
		return 0;
	if (read_user(f, sizeof(*f), (void *)fp))
		return 0;
	f->address = CODE_ADDRESS(f->address);
	return 1;
}

/* The same, by way of the window from sp up. */
INLINE int find_frame(struct caller_frame *f, u64 fp, u64 above, const struct window *w, u64 sp)
{
	u64 at = (fp - sp) / 8;

	if (fp <= above || fp & 7 || at + 2 > w->reach / 8 || at + 2 > WINDOW_WORDS)
		return read_frame(f, fp, above);
	BARRIER;
	if (at > WINDOW_WORDS - 2)
		return 0;
	f->next = w->words[at];
	f->address = CODE_ADDRESS(w->words[at + 1]);
	return 1;
}

/* The number of the chain above a call, from its innermost return address up. It is not 0. */
INLINE u64 chain_above(struct pt_regs *ctx, struct slot *s, struct caller_table *c, u32 most, const struct window *w)
{
	u64 hash = site_hash(s->id, *epoch_at(c, s->place), w->site), sp = STACK_POINTER(ctx), above = sp - 1, needed;
	u32 i, length = chain_length(c, hash, most);
	struct caller_frame f = {.next = FRAME_POINTER(ctx)};

	BOUNDED
	for (i = 1; i < MAX_CHAIN; i++) {
		u64 fp = f.next;

		if (i >= length || !find_frame(&f, fp, above, w, sp))
			break;
		above = fp;
		hash = mix(hash, unhidden(f.address, w, fp + 8));
	}
	needed = above + sizeof(f) - sp;
	if (needed > s->reach && needed <= sizeof(w->words))
		s->reach = needed;
	return hash ? hash : 1;
}

INLINE int chain_known(struct caller_table *c, u64 hash) { return c->chains[hash >> (64 - CHAIN_BITS)] == hash; }

/*
 * Tells user space the addresses of a chain, and returns its number. User space may have said meanwhile that other
 * addresses are of use, so the number may be another one than chain_above returned. Where there is no room, the
 * chain stays unknown: its next call tells the addresses.
 */
NOINLINE u64 define_chain(struct pt_regs *ctx, struct slot *s, const struct window *w, u64 cookie)
{
	struct caller_table *c = known_callers();
	struct caller_frame f = {.next = FRAME_POINTER(ctx)};
	u64 hash, above = STACK_POINTER(ctx) - 1;
	struct event e = {};
	u32 i, length;

	if (!c)
		return 0;
	e.args[0] = *epoch_at(c, s->place);
	e.args[1] = w->site;
	hash = site_hash(s->id, e.args[0], w->site);
	length = chain_length(c, hash, COOKIE_CHAIN(cookie));
	_Pragma("clang loop unroll(full)")
	for (i = 1; i < MAX_CHAIN; i++) {
		u64 fp = f.next;

		if (i >= length || !read_frame(&f, fp, above))
			break;
		above = fp;
		e.args[i + 1] = unhidden(f.address, w, fp + 8);
		hash = mix(hash, e.args[i + 1]);
	}
	if (!hash)
		hash = 1;
	set_head(&e, s->id, COOKIE_FUNCTION(cookie), i + 1, CHAIN_EVENT);
	e.chain = hash;
	e.enter = ktime_ns();
	if (put(s, &e))
		c->chains[hash >> (64 - CHAIN_BITS)] = hash;
	return hash;
}

#endif
