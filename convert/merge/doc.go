// Package merge puts the records of a log in the order of time.
//
// The input is the blocks that [Readers] read, each of one kind and mostly of one thread or
// stream. A [Merger] of a thread's calls, or of a stream's work, takes the thread's or the
// stream's blocks and gives their records in order, up to the time to which later blocks may
// reach back. Rows of columns become a [Call] or a [Work]; equal argument lists and launch
// shapes become one value each.
package merge
