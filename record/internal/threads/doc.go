// Package threads records what the threads of processes do: when they run, are ready to run or are blocked, and samples
// of what they run. Input: threads, and the kernel's perf events of them. Output: thread_state and thread_sample
// records, and native_frame and native_stack records that the samples name.
//
// No other thread of the machine pays: each event is of one thread. A thread that runs is sampled by the clock of its
// event. A thread that is blocked is looked at once, from outside: its system call, what that waits for, and its Python
// frames stay the same until it runs again.
//
//	threads.go   the recorder and its goroutine; which threads
//	thread.go    one thread: records of its event become states and samples
//	perf.go      perf events
//	entry.go     how a thread came into the kernel
//	native.go    addresses of code become native frames
package threads
