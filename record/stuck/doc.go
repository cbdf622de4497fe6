// Package stuck finds out why processes do not go on. Input: PIDs. Output: a [Report]: what each thread does, and a
// [Verdict].
//
// It looks twice, a second apart, and from outside: nothing is written into a process, no signal is sent, nobody is
// stopped. A thread's state and system call come from /proc, its Python frames and the owners of its locks from its
// memory, which may hold anything and may change meanwhile.
//
//	stuck.go    the two looks
//	process.go  a look at one process
//	pipes.go    which processes have the ends of a pipe
//	ranks.go    the reports of the ranks of a program
//	verdict.go  who waits for what, down to a cause
package stuck
