/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
/*
 * Which processes are of the recorded tree: those that one of the tree has started. Their
 * parents may have ended since, and their environment may be another.
 */
#ifndef CUDATRACE_TREE_H
#define CUDATRACE_TREE_H

#include "ids.h"

struct member {
	u64 began; /* ns, when the program began that it runs, by fork or exec */
	u64 ended; /* ns, 0 while it runs; user space removes it then */
	u8 comm[16];
};

struct {
	MAP_TYPE(MAP_HASH);
	MAP_ENTRIES(16384);
	MAP_KEY(u32); /* pid; or the tid of the recorder's thread that starts the program */
	MAP_VALUE(struct member);
} tree SEC(".maps");

/* How many processes found no room there. */
struct {
	MAP_TYPE(MAP_ARRAY);
	MAP_ENTRIES(1);
	MAP_KEY(u32);
	MAP_VALUE(u64);
} not_followed SEC(".maps");

INLINE int is_member(u32 pid)
{
	struct member *m = map_lookup(&tree, &pid);

	return m && !m->ended;
}

SEC("raw_tp/sched_process_fork")
int tree_fork(struct raw_tracepoint *ctx)
{
	struct task_struct *child = (void *)ctx->args[1], *leader = 0;
	u64 id = current_id(), *missed;
	u32 number, inum, zero = 0;
	struct member m = {};

	if (!is_member(id >> 32) && !is_member(id))
		return 0;
	read_kernel(&leader, sizeof(leader), FIELD(child, group_leader));
	if (leader != child) /* a thread */
		return 0;
	number = pidns_ino ? number_here(child) : number_at(thread_pid(child), 0, &inum);
	m.began = ktime_ns();
	current_comm(m.comm, sizeof(m.comm));
	if (map_update(&tree, &number, &m, 0)) {
		missed = map_lookup(&not_followed, &zero);
		if (missed)
			__sync_fetch_and_add(missed, 1);
	}
	return 0;
}

SEC("raw_tp/sched_process_exec")
int tree_exec(void *ctx)
{
	u32 pid = current_id() >> 32;
	struct member *m = map_lookup(&tree, &pid);

	(void)ctx;
	if (m) {
		m->began = ktime_ns();
		current_comm(m->comm, sizeof(m->comm));
	}
	return 0;
}

SEC("raw_tp/sched_process_exit")
int tree_exit(void *ctx)
{
	struct task_struct *task = (void *)current_task();
	struct signal_struct *signal = 0;
	u32 pid = current_id() >> 32;
	struct member *m = map_lookup(&tree, &pid);
	int live = 1;

	(void)ctx;
	if (!m)
		return 0;
	read_kernel(&signal, sizeof(signal), FIELD(task, signal));
	read_kernel(&live, sizeof(live), FIELD(signal, live.counter));
	if (!live)
		m->ended = ktime_ns();
	return 0;
}

#endif
