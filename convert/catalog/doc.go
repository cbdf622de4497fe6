// Package catalog is the first reading of a log.
//
// The input is the blocks of a log, in the order of the file. The output is a [Catalog] and its
// [Watermarks]. The catalog has everything small: processes and their programs, functions,
// names, devices, clocks, losses, and how the recording ended. Watermarks say how far back in
// time the events of later blocks may reach. The second reading needs both: names, because they
// may stand behind the records that they name, and watermarks, to put events in the order of
// time while it holds few of them.
//
// A catalog may be read from a log that still grows: [Catalog.Read] continues with the blocks
// that it has not taken yet.
package catalog
