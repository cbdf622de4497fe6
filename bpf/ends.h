/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
/*
 * How processes end. The library that is injected into a program has GPU records
 * that it must hand over before the program is gone. Where the program is about to
 * end, the thread that ends it gets the library's exit signal, whose handler runs
 * before the thread goes on: at libc's _exit and exec functions, and on top of a
 * handler of the program's own for a signal that usually kills.
 *
 * The signal is sent only while its handler is the library's: a program that has set
 * it to something else, or blocks it, is left alone. And the thread must have room for
 * the handler: the kernel kills a process whose alternate signal stack is too small.
 * A thread that is traced gets no signal, since its tracer would see a stop more than without us.
 */
#ifndef CUDATRACE_ENDS_H
#define CUDATRACE_ENDS_H

#include "ids.h"

/* Cookies of the probes on libc, and with END_SIGNAL the last sign of an end. */
enum end_sign {
	END_NONE = 0,
	END_EXIT = 1,	/* _exit: argument is the status */
	END_EXEC = 2,	/* one of the exec functions: the program may go on if it fails */
	END_SIGNAL = 3, /* argument is a signal that usually kills */
};

/*
 * Signals on which a program with a handler is asked. Many programs handle SIGPIPE,
 * SIGALRM and the user signals as a matter of course, so these are not among them.
 */
#define BIT(signal) (1ull << ((signal) - 1))
#define FAULTS (BIT(4) | BIT(5) | BIT(7) | BIT(8) | BIT(11)) /* ILL TRAP BUS FPE SEGV */
#define REQUESTS (BIT(1) | BIT(2) | BIT(3) | BIT(6) | BIT(15) | BIT(24)) /* HUP INT QUIT ABRT TERM XCPU */

/*
 * A program may live on after its handler, and do so often: runtimes that compile
 * code take faults all the time. So a process is asked once in ASK_INTERVAL for each
 * of the two groups, and MAX_FAULT_ASKS times in all for faults.
 */
#define ASK_INTERVAL 20000000ull /* ns */
#define MAX_FAULT_ASKS 10

/* Whom to send the exit signal. */
struct watch {
	u64 handler;	      /* of the exit signal */
	u64 over;	      /* address of a word: not 0 when there is nothing to ask for any more; 0: none */
	u64 own_from, own_to; /* addresses of the library's code */
	u32 signal;
	u32 asked; /* how often the signal was sent */
	u64 last_fault, last_request; /* ns, when it was sent for one */
	u64 fault_asks;
};

struct {
	MAP_TYPE(MAP_HASH);
	MAP_ENTRIES(4096);
	MAP_KEY(u32); /* pid */
	MAP_VALUE(struct watch);
} watches SEC(".maps");

/* What is known of a process's end. */
struct process_end {
	u32 sign; /* enum end_sign */
	s32 sign_argument;
	u64 sign_time; /* ns */
	u64 end_time;  /* ns, 0 while a thread lives */
	s32 exit_code; /* as wait(2) gives it: status << 8 | core 0x80 | signal */
	u32 traced;    /* a tracer kept the last exit signal from being sent */
	u64 exec_time; /* ns, of the last exec that began another program; 0: none */
};

struct {
	MAP_TYPE(MAP_HASH);
	MAP_ENTRIES(4096);
	MAP_KEY(u32); /* pid */
	MAP_VALUE(struct process_end);
} ends SEC(".maps");

/* Bytes that the kernel puts on a stack for a signal; the loader knows more. */
const volatile u32 signal_frame = 4096;
#define HANDLER_ROOM 4096

INLINE struct sigaction *action_of(struct task_struct *task, u32 signal)
{
	struct sighand_struct *sighand = 0;
	struct k_sigaction *action;

	read_kernel(&sighand, sizeof(sighand), FIELD(task, sighand));
	action = (void *)((u8 *)FIELD(sighand, action) + (signal - 1) * KERNEL_SIZE(struct k_sigaction));
	return FIELD(action, sa);
}

/* Whether the thread would run the library's handler now; flags are the handler's. */
INLINE int handled(struct task_struct *task, const struct watch *w, u64 *flags)
{
	u64 handler = 0, blocked = ~0ull;
	struct sigaction *action;

	if (w->signal - 1 >= 64)
		return 0;
	action = action_of(task, w->signal);
	read_kernel(&handler, sizeof(handler), FIELD(action, sa_handler));
	read_kernel(flags, sizeof(*flags), FIELD(action, sa_flags));
	read_kernel(&blocked, sizeof(blocked), FIELD(task, blocked));
	return handler == w->handler && !(blocked & BIT(w->signal));
}

#define ON_STACK 0x08000000 /* SA_ONSTACK */

/*
 * Whether below sp there is room for frames, as far as the alternate signal stack is
 * concerned. Handlers with the given flags run there.
 */
INLINE int room_below(struct task_struct *task, u64 sp, u64 flags, u64 frames)
{
	u64 base = 0, size = 0;

	read_kernel(&base, sizeof(base), FIELD(task, sas_ss_sp));
	read_kernel(&size, sizeof(size), FIELD(task, sas_ss_size));
	if (sp - base > size) { /* on another stack */
		if (!(flags & ON_STACK) || !size)
			return 1;
		sp = base + size;
	}
	return sp - base >= frames * signal_frame + HANDLER_ROOM;
}

INLINE void ask(u32 pid, struct watch *w)
{
	struct task_struct *task = (void *)current_task();
	struct process_end *p = map_lookup(&ends, &pid);
	u32 ptrace = 0, over = 0;

	if (w->over && !read_user(&over, sizeof(over), (void *)w->over) && over)
		return;
	read_kernel(&ptrace, sizeof(ptrace), FIELD(task, ptrace));
	if (p)
		p->traced = ptrace != 0;
	if (!ptrace && !send_signal_thread(w->signal))
		w->asked++;
}

/* Asks at the entry of a function, if that can be. */
INLINE void ask_here(struct pt_regs *ctx, u32 pid, struct watch *w)
{
	struct task_struct *task = (void *)current_task();
	u64 flags = 0;

	if (handled(task, w, &flags) && room_below(task, STACK_POINTER(ctx), flags, 1))
		ask(pid, w);
}

INLINE void note_sign(u32 pid, u32 sign, s32 argument)
{
	struct process_end *p = map_lookup(&ends, &pid);

	if (!p)
		return;
	p->sign = sign;
	p->sign_argument = argument;
	p->sign_time = ktime_ns();
}

/* A libc function that ends the program, or replaces it. */
INLINE int ending(struct pt_regs *ctx)
{
	u32 pid = current_id() >> 32;
	struct watch *w = map_lookup(&watches, &pid);

	if (!w)
		return 0;
	note_sign(pid, attach_cookie(ctx), (s32)FIRST_ARG(ctx));
	ask_here(ctx, pid, w);
	return 0;
}

SEC("uprobe.multi")
int ending_multi(struct pt_regs *ctx)
{
	return ending(ctx);
}

SEC("uprobe")
int ending_single(struct pt_regs *ctx)
{
	return ending(ctx);
}

/* Counts an ask against the limits; 0 when they forbid it. */
INLINE int allowed(struct watch *w, int fault)
{
	u64 now = ktime_ns(), *last = fault ? &w->last_fault : &w->last_request;

	if (now - *last < ASK_INTERVAL || (fault && w->fault_asks >= MAX_FAULT_ASKS))
		return 0;
	*last = now;
	if (fault)
		w->fault_asks++;
	return 1;
}

INLINE u64 user_stack(void)
{
	struct pt_regs *regs = (void *)task_pt_regs(current_task_btf());
	u64 sp = 0;

	read_kernel(&sp, sizeof(sp), &STACK_POINTER(regs));
	return sp;
}

/*
 * Whether the exit signal's handler would run at once, on top of the program's own
 * for another signal, and fit on its stack.
 */
INLINE int on_top(struct watch *w, struct k_sigaction *action)
{
	struct task_struct *task = (void *)current_task();
	u64 flags = 0, own = 0, mask = ~0ull;

	read_kernel(&flags, sizeof(flags), FIELD(action, sa.sa_flags));
	read_kernel(&mask, sizeof(mask), FIELD(action, sa.sa_mask));
	return handled(task, w, &own) && !(mask & BIT(w->signal)) && room_below(task, user_stack(), flags | own, 2);
}

/*
 * A signal is about to be handled, or to do what it does by default: then nothing of
 * the program's runs any more. This runs for all processes of the machine, with a lock
 * held and interrupts off.
 */
SEC("raw_tp/signal_deliver")
int signal_deliver(struct raw_tracepoint *ctx)
{
	u64 signal = ctx->args[0], handler = 0;
	struct k_sigaction *action = (void *)ctx->args[2];
	struct watch *w;
	u32 pid;
	int fault;

	if (signal - 1 >= 64 || !(BIT(signal) & (FAULTS | REQUESTS)))
		return 0;
	pid = current_id() >> 32;
	w = map_lookup(&watches, &pid);
	if (!w)
		return 0;
	read_kernel(&handler, sizeof(handler), FIELD(action, sa.sa_handler));
	if (handler == 1) /* SIG_IGN */
		return 0;
	note_sign(pid, END_SIGNAL, signal);
	if (!handler || (handler >= w->own_from && handler < w->own_to)) /* SIG_DFL, or the library knows */
		return 0;
	fault = !!(BIT(signal) & FAULTS);
	if (on_top(w, action) && allowed(w, fault))
		ask(pid, w);
	return 0;
}

/* The process runs another program from now on. */
INLINE void note_exec(u32 pid)
{
	struct process_end *p = map_lookup(&ends, &pid);

	if (p && !p->end_time)
		p->exec_time = ktime_ns();
}

#define GROUP_EXIT 4 /* SIGNAL_GROUP_EXIT: the whole process has one exit code */

/* Notes how a process ended when its last thread does. */
NOINLINE void process_exit(u32 pid)
{
	struct process_end *p = map_lookup(&ends, &pid);
	struct task_struct *task = (void *)current_task(), *leader = 0;
	struct signal_struct *signal = 0;
	int live = 1, code = 0;
	u32 flags = 0;

	if (!p)
		return;
	read_kernel(&signal, sizeof(signal), FIELD(task, signal));
	read_kernel(&live, sizeof(live), FIELD(signal, live.counter));
	if (live)
		return;
	read_kernel(&flags, sizeof(flags), FIELD(signal, flags));
	read_kernel(&leader, sizeof(leader), FIELD(task, group_leader));
	if (flags & GROUP_EXIT)
		read_kernel(&code, sizeof(code), FIELD(signal, group_exit_code));
	else
		read_kernel(&code, sizeof(code), FIELD(leader, exit_code));
	p->exit_code = code;
	p->end_time = ktime_ns();
}

#endif
