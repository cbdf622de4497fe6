// Package blockfile is the outer layer of a log: a file header, then checksummed blocks with
// running numbers, then a trailer.
//
// A [Walker] goes through a file from block to block, whatever the damage, and reports the
// bytes that it had to leave out. It can follow a file that is still written. A [Source] reads
// single blocks at known offsets. The meaning of payloads is not known here. FORMAT.md
// specifies the bytes under "The file", "Block" and "Trailer".
package blockfile
