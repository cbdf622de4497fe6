// Package ranks compares the ranks of a distributed program: who waits for whom in its collectives, how long its steps
// take on each rank, what one rank does differently, and how fast collectives are by the size of their messages.
//
// Input: the processes of a timeline, their NCCL kernels with what NCCL says about them, and the NVTX ranges that are
// steps. Output: tables, what each rank waited, and findings. Memory is bounded: a sample of the collectives is kept,
// see package collective, the first sizes of messages, and of the steps those that come first.
package ranks
