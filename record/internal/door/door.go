// Package door stops the threads of a running process outside of CUDA for a moment.
//
// cuptiFinalize is safe only while no thread of the program is inside CUDA, and nothing in CUDA tells that. So threads
// are stopped one by one, with ptrace. One that is outside stays stopped; one that is inside goes on, and is stopped again a
// little later: at first at any time, and if that does not help, where its call returns, by a breakpoint of the
// processor's.
//
// A thread is outside if no word of its stack, from its stack pointer to where the thread began, and not its instruction
// pointer, is an address in the code of CUDA's libraries or ours: a call that has not returned has its return address
// there. Words that calls left behind which have returned look the same. A thread that waits in libc may keep them for ever:
// it is outside, too, if the unwind tables lead from its instruction pointer to the function in which it began, through none
// of CUDA's. Otherwise, and on a stack of the program's own making, whose other end is not known, it counts as inside: the
// door stays open, and nothing is done.
//
// A thread in libc, outside of a system call that waits, may hold a lock that CUPTI needs, and counts as inside, too. The
// threads of CUDA's and ours are left alone: CUPTI needs them.
//
// While threads are stopped, nothing may block for long. The memory map is read before. Files, and pages of stacks that
// are not in memory, are read by another goroutine, which is waited for readMost in all; what does not come by then
// counts as inside. Else there are system calls that wait for nothing: of ptrace, waitid, perf events, pages that are
// there, and small files of /proc. What Shut calls bounds itself. Nothing bounds SIGSTOP, or a freezer, to the
// recorder.
package door

import "errors"

// ErrInside says that threads were inside CUDA all the time, or that it cannot be seen where they are.
var ErrInside = errors.New("its threads were never all outside of CUDA at one moment")
