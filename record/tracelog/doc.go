// Package tracelog writes and reads the log of a recording, the .cudatrace file.
//
// The input is records: a [Call], a [Kernel] and so on, each with AddTo, in any order and from
// any goroutine. A [Writer] gathers records of one kind, process and thread or stream in open
// blocks, and writes a block when it is full. A [Reader] gives these blocks back, and a [Block]
// gives its records (Call.Read) or, for readers of millions of records, columns of numbers
// without a copy (Block.Column). The log is a run of checksummed blocks, in which each field is
// a column of its own. A launch (a call with its arguments, an API record and a kernel) takes
// about 6 bytes. FORMAT.md is the specification.
//
// The writer may be killed at any moment: the reader gives every whole block, and says in words
// what is missing. Damage costs only the blocks that it is in. RepairTo recovers the intact
// records of a damaged log. The log describes itself, and a reader goes by the names of kinds
// and fields: an older reader leaves out what it does not know.
//
// A Reader gives all blocks in the order of the file, or on request
//   - only the blocks that may have records that a [Filter] wants, found through the index (Select),
//   - the blocks that another reader of the log has given, and no others (Reread),
//   - blocks that other goroutines have decoded ahead (Parallel),
//   - the blocks of a log that is still being written, as it grows (Follow).
//
// Times are nanoseconds of CLOCK_MONOTONIC, durations nanoseconds, sizes bytes.
//
// # Where things are
//
//	schema              the kinds of record with their fields: the one description
//	records_gen.go      the Go types that come from it, and recordmethods_gen.go their methods
//	writer.go           Writer → openblocks.go → blockwriter.go, index.go → internal/blockfile/outbox.go → file
//	internal/columns    rows ↔ the bytes of a table; the log's own description of its kinds and fields
//	internal/blockfile  file ↔ checksummed blocks: past damage, as the file grows, on a full disk
//	reader.go           file → decoding.go → intake.go, strings.go → block.go
//	selection.go        the blocks that a filter may want, by the index
//	ledger.go           whether index and footer are those of the log
//	contents.go         reading a log a second time
//	opencalls.go        calls that had not returned
//	repair.go           recovering the intact records of a damaged log
//	logtext             the text form and JSON
//
// # A new kind of record, or a new field
//
// CONTRIBUTING.md lists the files. A field is added as the last one of its kind's table. The minor version in
// internal/blockfile/format.go goes up with a release that adds kinds or fields; then testdata gets a log of
// the new version with its text, so that later versions are held to it.
package tracelog
