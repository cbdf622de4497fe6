/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
/*
 * The few declarations of the kernel's BPF interface that the program needs, so
 * that it compiles with clang alone: no vmlinux.h, no libbpf, no kernel headers.
 * Numbers are those of the kernel's user-space ABI (linux/bpf.h).
 */
#ifndef CUDATRACE_KERNEL_H
#define CUDATRACE_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
/* A function that the kernel verifies once, not at each call: it takes numbers, and returns one. */
#define GLOBAL __attribute__((noinline))
#define BOUNDED _Pragma("clang loop unroll(disable)")

/* A map is described by the types of these members; the loader reads them from BTF. */
#define MAP_TYPE(number) int(*type)[number]
#define MAP_ENTRIES(number) int(*max_entries)[number]
#define MAP_KEY(t) typeof(t) *key
#define MAP_VALUE(t) typeof(t) *value

enum map_type {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_ARRAY = 6,
	MAP_LRU_HASH = 9,
	MAP_RINGBUF = 27,
};

#define MAP_FLAGS(number) int(*map_flags)[number]
#define MMAPABLE 1024	    /* BPF_F_MMAPABLE */
#define RINGBUF_NO_WAKEUP 1 /* BPF_RB_NO_WAKEUP */

/* What the program reads of the kernel's own structs; the loader fits the offsets. */
#define KERNEL_TYPE __attribute__((preserve_access_index))
struct ns_common {
	u32 inum;
} KERNEL_TYPE;
struct pid_namespace {
	struct ns_common ns;
} KERNEL_TYPE;
struct upid {
	int nr;
	struct pid_namespace *ns;
} KERNEL_TYPE;
struct pid {
	u32 level;
	struct upid numbers[1];
} KERNEL_TYPE;
typedef struct {
	u64 sig[1];
} KERNEL_TYPE sigset_t;
struct sigaction {
	void *sa_handler;
	u64 sa_flags;
	sigset_t sa_mask;
} KERNEL_TYPE;
struct k_sigaction {
	struct sigaction sa;
} KERNEL_TYPE;
struct sighand_struct {
	struct k_sigaction action[64];
} KERNEL_TYPE;
typedef struct {
	int counter;
} KERNEL_TYPE atomic_t;
struct signal_struct {
	atomic_t live;
	int group_exit_code;
	u32 flags;
} KERNEL_TYPE;
struct return_instance {
	u64 stack, orig_ret_vaddr;
	struct return_instance *next;
} KERNEL_TYPE;
struct uprobe_task {
	struct return_instance *return_instances;
} KERNEL_TYPE;
struct task_struct {
	struct pid *thread_pid;
	struct uprobe_task *utask;
	struct task_struct *group_leader;
	struct sighand_struct *sighand;
	struct signal_struct *signal;
	sigset_t blocked;
	u64 sas_ss_sp, sas_ss_size;
	int exit_code;
	u32 ptrace;
} KERNEL_TYPE;
#define FIELD(pointer, field) __builtin_preserve_access_index(&(pointer)->field)
#define KERNEL_SIZE(type) __builtin_preserve_type_info(*(type *)0, 1 /* BPF_TYPE_SIZE */)

struct pidns_info { /* struct bpf_pidns_info */
	u32 tid;
	u32 tgid;
};

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const ktime_ns)(void) = (void *)5;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static long (*const current_comm)(void *to, u32 size) = (void *)16;
static u64 (*const current_task)(void) = (void *)35;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const read_user_str)(void *to, u32 size, const void *from) = (void *)114;
static long (*const ns_current_pid_tgid)(u64 dev, u64 ino, struct pidns_info *to, u32 size) = (void *)120;
static void *(*const ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const ringbuf_submit)(void *record, u64 flags) = (void *)132;
static void (*const ringbuf_discard)(void *record, u64 flags) = (void *)133;
static long (*const send_signal_thread)(u32 signal) = (void *)117;
static u64 (*const current_task_btf)(void) = (void *)158;
static u64 (*const attach_cookie)(void *ctx) = (void *)174;
static u64 (*const task_pt_regs)(u64 task) = (void *)175;

/* What a raw tracepoint's program gets. */
struct raw_tracepoint {
	u64 args[3];
};

/*
 * Registers as the kernel hands them to a uprobe's program, and the calling
 * convention: which hold arguments, where the others lie on the stack, and how far
 * a return moves the stack pointer. And what the processor needs for order in memory.
 */
#define BARRIER __asm__ volatile("" ::: "memory")
#define BARRIER_ON(value) __asm__ volatile("" : "+r"(value))
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	u64 ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#define STACK_POINTER(ctx) ((ctx)->sp)
#define RETURN_VALUE(ctx) ((ctx)->ax)
#define FIRST_ARG(ctx) ((ctx)->di)
#define FRAME_POINTER(ctx) ((ctx)->bp)
#define INSTRUCTION(ctx) ((ctx)->ip)
#define LINK(ctx) 0 /* the return address, where that is in a register at entry */
#define CODE_ADDRESS(word) (word)
#define REGISTER_ARGS 6
#define STACK_ARGS_AT 8 /* above the return address */
#define RETURN_POPS 8   /* ret pops the return address */
#define REPLACED_AT(stack, at) ((stack) == (at))
#define LOAD_LESS_REGISTERS(to, ctx)                                                               \
	((to)[0] = (ctx)->di, (to)[1] = (ctx)->si, (to)[2] = (ctx)->dx, (to)[3] = (ctx)->cx)
#define LOAD_MORE_REGISTERS(to, ctx) ((to)[4] = (ctx)->r8, (to)[5] = (ctx)->r9)
/* Makes a store visible to other processors after all earlier ones: they are, in order. */
#define PUBLISH(to, value)                                                                         \
	do {                                                                                       \
		BARRIER;                                                                           \
		*(volatile typeof(*(to)) *)(to) = (value);                                         \
	} while (0)
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs { /* struct user_pt_regs */
	u64 x[31], sp, pc, pstate;
};
#define STACK_POINTER(ctx) ((ctx)->sp)
#define RETURN_VALUE(ctx) ((ctx)->x[0])
#define FIRST_ARG(ctx) ((ctx)->x[0])
#define FRAME_POINTER(ctx) ((ctx)->x[29])
#define INSTRUCTION(ctx) ((ctx)->pc)
#define LINK(ctx) ((ctx)->x[30])
/* A return address may be signed: pointer authentication has the bits above an address. */
#define CODE_ADDRESS(word) ((word) & 0xffffffffffffull)
#define REGISTER_ARGS 8
#define STACK_ARGS_AT 0
#define RETURN_POPS 0
/* The address was in a register at the function's entry; the frame with it lies below the stack pointer of then. */
#define REPLACED_AT(stack, at) ((stack) >= (at))
#define LOAD_LESS_REGISTERS(to, ctx)                                                               \
	((to)[0] = (ctx)->x[0], (to)[1] = (ctx)->x[1], (to)[2] = (ctx)->x[2], (to)[3] = (ctx)->x[3])
#define LOAD_MORE_REGISTERS(to, ctx)                                                               \
	((to)[4] = (ctx)->x[4], (to)[5] = (ctx)->x[5], (to)[6] = (ctx)->x[6], (to)[7] = (ctx)->x[7])
/* Makes a store visible to other processors after all earlier ones: an exchange is a barrier. */
#define PUBLISH(to, value) ((void)__sync_lock_test_and_set(to, value))
#else
#error "build with -D__TARGET_ARCH_x86 or -D__TARGET_ARCH_arm64"
#endif

#endif
