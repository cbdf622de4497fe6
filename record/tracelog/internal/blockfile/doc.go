// Package blockfile is the outer layer of a log: a file header, then checksummed blocks with
// running numbers, then a trailer. A block is a type and a payload of bytes; this package does not
// know what payloads mean. FORMAT.md specifies the bytes under "The file", "Block" and "Trailer".
//
// Reading: a [Walker] goes through the file from block to block, whatever the damage, and reports
// the bytes that it had to leave out. It can follow a file that is still being written. A [Source]
// reads bytes at known offsets.
//
// Writing: an [Outbox] writes blocks, and keeps them while the disk is full.
package blockfile
