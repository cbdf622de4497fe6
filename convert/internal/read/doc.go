// Package read reads a log twice: first what is small, then its records in the order of time.
//
// Input: the blocks of a log, each of one kind and mostly of one thread or stream. Output of the
// first reading: a [Catalog] with its [Watermarks]. The catalog has everything small: processes
// and their programs, functions, names, devices, clocks, losses, and how the recording ended. A
// watermark is the earliest time that a later block may still contain. The second reading needs
// both. It needs names from the start, but the log may have them behind the records that they
// name. And with watermarks it puts events in the order of time while it holds few of them.
//
// Output of the second reading, by [Readers]: records in order, each a [Call] or a [Work]. A
// [Merger] takes the blocks of one thread or one stream, and gives their records up to the
// watermark. Equal argument lists become one value, and so do equal launch shapes.
//
// A log may still grow: [Catalog.Read] continues with the blocks that it has not read yet.
package read
