// Package blockfile is the outer layer of a log: a file header, then checksummed blocks with
// running numbers, then a trailer.
//
// Input: a log file. Output: its blocks, each a kind and a payload of bytes. A [Walker] goes
// through the file from block to block, whatever the damage, and reports the bytes that it had to
// leave out. It can follow a file that is still being written. A [Source] reads bytes at known
// offsets. This package does not know what payloads mean. FORMAT.md specifies the bytes
// under "The file", "Block" and "Trailer".
package blockfile
