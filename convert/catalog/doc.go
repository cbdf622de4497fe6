// Package catalog is the first reading of a log.
//
// Input: the blocks of a log, in the order of the file. Output: a [Catalog] with its
// [Watermarks]. The catalog has everything small: processes and their programs, functions,
// names, devices, clocks, losses, and how the recording ended. A watermark is the earliest time
// that a later block may still contain. The second reading needs both. It needs names from the
// start, but the log may have them behind the records that they name. And with watermarks it
// puts events in the order of time while it holds few of them.
//
// A log may still grow: [Catalog.Read] continues with the blocks that it has not read yet.
package catalog
