// Package activity measures how busy GPUs are, and why they are idle.
//
// Input: the work of the streams of a [Device], and the calls of each thread in its [History].
// Output: the time in which any work, kernels, copies or communication were under way, on the
// device and by process and stream; and each [Gap] between two pieces of work with its cause.
package activity
