/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause OR GPL-2.0-only */
/* What processes and threads are called in the recorder's PID namespace. */
#ifndef CUDATRACE_IDS_H
#define CUDATRACE_IDS_H

#include "kernel.h"

/* The recorder's PID namespace, 0 when that is the initial one. */
const volatile u64 pidns_dev = 0;
const volatile u64 pidns_ino = 0;

INLINE struct pid *thread_pid(struct task_struct *task)
{
	struct pid *pid = 0;

	read_kernel(&pid, sizeof(pid), FIELD(task, thread_pid));
	return pid;
}

/* What the PID namespace at a level calls the thread, and which one that is. */
INLINE u32 number_at(struct pid *pid, u32 level, u32 *inum)
{
	struct upid *at = (void *)((u8 *)FIELD(pid, numbers) + level * KERNEL_SIZE(struct upid));
	struct pid_namespace *ns = 0;
	u32 nr = 0;

	read_kernel(&nr, sizeof(nr), FIELD(at, nr));
	read_kernel(&ns, sizeof(ns), FIELD(at, ns));
	*inum = 0;
	read_kernel(inum, sizeof(*inum), FIELD(ns, ns.inum));
	return nr;
}

#define MAX_LEVELS 33 /* as many as the kernel nests */

/* The thread's number in the recorder's PID namespace, 0 when that is none of its own. */
NOINLINE u32 number_here(struct task_struct *task)
{
	struct pid *pid = thread_pid(task);
	u32 level = 0, inum, nr, i;

	read_kernel(&level, sizeof(level), FIELD(pid, level));
	BOUNDED
	for (i = 0; i < MAX_LEVELS; i++) {
		if (i > level)
			break;
		nr = number_at(pid, level - i, &inum);
		if (inum == (u32)pidns_ino)
			return nr;
	}
	return 0;
}

/* The same as current_id for a process in a namespace below the recorder's. */
NOINLINE u64 nested_id(void)
{
	struct task_struct *task = (void *)current_task(), *leader = 0;

	read_kernel(&leader, sizeof(leader), FIELD(task, group_leader));
	return (u64)number_here(leader) << 32 | number_here(task);
}

/* pid << 32 | tid in the recorder's PID namespace; 0 when the thread is not visible there. */
INLINE u64 current_id(void)
{
	struct pidns_info info;

	if (!pidns_ino)
		return current_pid_tgid();
	if (ns_current_pid_tgid(pidns_dev, pidns_ino, &info, sizeof(info)))
		return nested_id();
	return (u64)info.tgid << 32 | info.tid;
}

/* The thread's id in its innermost PID namespace, as it knows it itself. */
NOINLINE u32 namespace_tid(void)
{
	struct pid *pid = thread_pid((void *)current_task());
	u32 level = 0, inum;

	read_kernel(&level, sizeof(level), FIELD(pid, level));
	return number_at(pid, level, &inum);
}

#endif
