// Package findings tells what costs a program time on its GPUs: habits that have a known remedy.
//
// Input: calls, GPU work, and the gaps between work, from package activity. Output: a [Finding] for
// each habit of a process that costs enough, with its evidence. Memory is bounded for each process, thread and stream.
package findings
