// Package catalog is the first reading of a log.
//
// In go the blocks of a log, in the order of the file. Out comes a [Catalog]: what is
// small (processes and their programs, functions, names, devices, clocks, losses, how
// the recording ended), and [Watermarks], which say how far back the events of the
// blocks to come may reach. The second reading needs both: names, because they may
// stand behind what they name, and watermarks, to put events in the order of time
// while it holds few of them.
//
// A catalog may be read from a log that still grows: [Catalog.Read] takes the blocks
// that it has not taken yet.
package catalog
