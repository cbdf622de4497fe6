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
 * up to the last frame that a chain of the thread needed. And the chain above the thread's last call.
 */
struct window {
	u64 words[WINDOW_WORDS];
	u64 epoch;
	u64 chain[MAX_CHAIN]; /* return addresses from the innermost up, which is 0 when not known */
	u64 hidden;	      /* the return address of the innermost open call, 0 unless the call is quiet */
	u32 length;	      /* of the chain */
	u32 reach;	      /* bytes of words that were read */
};

#define MAX_REPLACED 16 /* return addresses of a thread that the kernel has replaced */

/*
 * What the start of the kernel's trampoline stands for at a place of the current thread's stack: the return address that
 * the kernel has replaced there, else the hidden one if there is one. Where one function jumped to another, the outer
 * one's is the address. Some other recorder's probe may be why: the kernel replaces the address in all processes that
 * run into the instruction.
 */
GLOBAL u64 replaced(u64 trampoline, u64 hidden, u64 at)
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
	return hidden ? hidden : trampoline;
}

/*
 * What a return address on the stack stands for. That of a return-probed call is the
 * start of the kernel's trampoline, a page. A recorded call has a chain of its own, which
 * tells where it was made. A quiet one has none, so its return address is put back. Two quiet calls
 * share a return address where one function jumps to the other, as __cudaLaunchKernel does.
 */
INLINE u64 unhidden(u64 address, const struct window *w, u64 at)
{
	return address & 0xfff ? address : replaced(address, w->hidden, at);
}

/* Finds the frame at fp, in the window from sp up or elsewhere. Returns 0 when it cannot be one above another. */
INLINE int find_frame(struct caller_frame *f, u64 fp, u64 above, const struct window *w, u64 sp)
{
	u64 at = (fp - sp) / 8;

	if (fp <= above || fp - above > MAX_FRAME || fp & 7)
		return 0;
	if (at <= WINDOW_WORDS - 2 && at + 2 <= w->reach / 8) {
		f->next = w->words[at];
		f->address = w->words[at + 1];
	} else if (read_user(f, sizeof(*f), (void *)fp)) {
		return 0;
	}
	f->address = CODE_ADDRESS(f->address);
	return 1;
}

/*
 * Follows the chain above a call, whose innermost return address is known, and returns its number, which is not 0.
 * fp is the frame pointer.
 */
INLINE u64 follow_chain(struct slot *s, struct caller_table *c, struct window *w, u64 sp, u64 fp, u32 most)
{
	u64 hash, above = sp - 1, needed;
	struct caller_frame f = {.next = fp};
	u32 i, length;

	w->epoch = *epoch_at(c, s->place);
	hash = site_hash(s->id, w->epoch, w->chain[0]);
	length = chain_length(c, hash, most) & SITE_LENGTH; /* which is MAX_CHAIN at most, also for the verifier */
	BOUNDED
	for (i = 1; i < length; i++) {
		fp = f.next;
		if (!find_frame(&f, fp, above, w, sp))
			break;
		above = fp;
		w->chain[i] = unhidden(f.address, w, fp + 8);
		hash = mix(hash, w->chain[i]);
	}
	w->length = i;
	needed = above + sizeof(f) - sp;
	if (needed > s->reach && needed <= sizeof(w->words))
		s->reach = needed;
	return hash ? hash : 1;
}

INLINE u64 *known_chain(struct caller_table *c, u64 hash) { return &c->chains[hash >> (64 - CHAIN_BITS)]; }

/*
 * Tells user space the addresses of a chain. Where there is no room, the chain stays unknown: its next call tells the
 * addresses.
 */
NOINLINE void define_chain(struct slot *s, struct caller_table *c, const struct window *w, u64 hash, u32 function)
{
	struct event *e = room(s);

	if (!e)
		return;
	set_head(e, s->id, function, w->length + 1, CHAIN_EVENT);
	e->chain = hash;
	e->args[0] = w->epoch;
	__builtin_memcpy(e->args + 1, w->chain, sizeof(w->chain));
	e->enter = ktime_ns();
	publish(s, e->nargs);
	*known_chain(c, hash) = hash;
}

#endif
