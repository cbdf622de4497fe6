// Package merge puts the records of a log in the order of time.
//
// In go the blocks that [Readers] read, each of one kind and mostly of one thread or
// stream. A [Merger] of a thread's calls or of a stream's work takes its blocks and
// gives their records in order, as far as no block to come reaches back. On the way a
// row of columns becomes a [Call] or a [Work]: equal argument lists and launch shapes
// become one value each.
package merge
