// Package activity measures what GPUs do over time: how long they are busy with which work, and why they are idle.
//
// Input: the work of the streams of each [Device], in nearly any order, and the calls of each thread in its [History].
// Output: the time in which any work, kernels, copies or communication were under way, of the device and by process and
// stream; the same over time, as it comes or as the [Slice] list of a process; sampled [Counters]; and each [Gap]
// between two pieces of work with its cause.
//
// Streams are recorded one apart from another, so that pieces of work wait in a window, by start. A piece that comes
// later than the window allows counts as late, and for the time that is not settled.
package activity
