// Package tracelog writes and reads the log of a recording, the .cudatrace file.
//
// A log is a run of checksummed blocks. A block holds records of one kind column by
// column, so that a column can be stored as what it is: one number for all rows, a
// few numbers that repeat, times that grow. A launch, which is a call with its
// arguments, an API record and a kernel, takes about 10 bytes. The log describes
// itself: a schema block names the kinds and their fields, and readers go by these
// names, so that an older one skips what it does not know. FORMAT.md is the
// specification; the tables of package schema are the one description of the records
// that the writer, the reader, the text form and FORMAT.md follow.
//
// A [Writer] may be killed at any moment: a [Reader] gives every whole block, and
// says in words what is missing. Damage costs the blocks that it is in and no other.
//
// A Reader gives all blocks in the order of the file, or those that a [Filter] can
// want, found through the index (Reader.Select); it decodes ahead on other goroutines
// when asked to (Reader.Parallel). A [Block] gives records (Call.Read), or columns of
// numbers without a copy (Block.Column) to those who read millions. [Dump] and [Assemble]
// go from log to text and back, [RepairFile] makes an intact log of a damaged one.
//
// Times are nanoseconds of CLOCK_MONOTONIC, durations nanoseconds, sizes bytes.
package tracelog
