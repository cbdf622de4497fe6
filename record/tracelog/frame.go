package tracelog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Version of the format that this package writes, and the newest that it reads.
// A new minor version only adds kinds and fields; a new major one changes the rest.
const (
	VersionMajor = 1
	VersionMinor = 2
)

// The parts of fixed size. FORMAT.md draws them.
const (
	headerSize      = 16
	blockHeaderSize = 24
	trailerSize     = 24
)

var (
	magic        = []byte("CUDATRC\n")
	trailerMagic = []byte("CUDATEND")
	// marker begins every block. Its bytes are no text and no small numbers, so
	// that a search for the next block seldom stops at anything else.
	marker = []byte{0xCD, 0x7A, 0xB1, 0x0C}
)

// Types of block.
const (
	blockSchema  = 1
	blockRecords = 2
	blockIndex   = 3
	blockFooter  = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

var le = binary.LittleEndian

// appendHeader appends the header of a file.
func appendHeader(dst []byte, minor uint16) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = le.AppendUint16(dst, VersionMajor)
	dst = le.AppendUint16(dst, minor)
	return le.AppendUint32(dst, checksum(dst[start:]))
}

// A blockHeader precedes the payload of a block.
type blockHeader struct {
	kind   uint8  // offset 4
	seq    uint32 // offset 8: number of the block in the log, from 0
	length uint32 // offset 12: bytes of payload
	crc    uint32 // offset 16: of the payload
}

// put writes the header over the first 24 bytes of b.
func (h blockHeader) put(b []byte) {
	copy(b, marker)
	le.PutUint32(b[4:], uint32(h.kind)) // and three reserved bytes
	le.PutUint32(b[8:], h.seq)
	le.PutUint32(b[12:], h.length)
	le.PutUint32(b[16:], h.crc)
	le.PutUint32(b[20:], checksum(b[:20]))
}

// parseBlockHeader reports whether b begins with the intact header of a block.
func parseBlockHeader(b []byte) (blockHeader, bool) {
	if len(b) < blockHeaderSize || !bytes.HasPrefix(b, marker) || le.Uint32(b[20:]) != checksum(b[:20]) {
		return blockHeader{}, false
	}
	h := blockHeader{kind: b[4], seq: le.Uint32(b[8:]), length: le.Uint32(b[12:]), crc: le.Uint32(b[16:])}
	return h, h.length <= schema.MaxPayload
}

// appendTrailer appends the last bytes of a finished log, which locate its footer.
func appendTrailer(dst []byte, footer uint64) []byte {
	start := len(dst)
	dst = append(dst, trailerMagic...)
	dst = le.AppendUint64(dst, footer)
	dst = le.AppendUint32(dst, 0)
	return le.AppendUint32(dst, checksum(dst[start:]))
}

// parseTrailer returns the offset of the footer.
func parseTrailer(b []byte) (uint64, bool) {
	if len(b) != trailerSize || !bytes.HasPrefix(b, trailerMagic) || le.Uint32(b[20:]) != checksum(b[:20]) {
		return 0, false
	}
	return le.Uint64(b[8:]), true
}
