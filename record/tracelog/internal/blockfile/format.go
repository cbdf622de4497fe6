package blockfile

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Version is a version of the format. A new minor version only adds kinds and fields; a new
// major one changes the rest.
type Version struct{ Major, Minor uint16 }

// Current is the version that this package writes. It reads this major version, with any minor one.
var Current = Version{2, 0}

// Sizes of the parts that FORMAT.md draws.
const (
	FileHeaderSize = 16
	HeaderSize     = 24 // of a block
	TrailerSize    = 24
)

var (
	magic        = []byte("CUDATRC\n")
	trailerMagic = []byte("CUDATEND")
	// marker begins every block. Its bytes are neither text nor small numbers, so
	// that a search for the next block seldom stops at other bytes.
	marker = []byte{0xCD, 0x7A, 0xB1, 0x0C}
)

// Types of block.
const (
	Schema  = 1
	Records = 2
	Index   = 3
	Footer  = 4
	Padding = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC-32C of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

var le = binary.LittleEndian

// A FileHeader begins a file.
type FileHeader struct {
	Version
	Magic  bool // its first bytes are those of a log
	Intact bool // its checksum is right
}

// ParseFileHeader reads the first FileHeaderSize bytes of a file, or all that there are.
func ParseFileHeader(b []byte) (h FileHeader) {
	if h.Magic = bytes.HasPrefix(b, magic); len(b) >= FileHeaderSize {
		h.Major, h.Minor = le.Uint16(b[8:]), le.Uint16(b[10:])
		h.Intact = le.Uint32(b[12:]) == Checksum(b[:12])
	}
	return h
}

// IsBeginning reports whether b can be the first bytes of a file header.
func IsBeginning(b []byte) bool { return bytes.HasPrefix(magic, b[:min(len(b), len(magic))]) }

// AppendFileHeader appends the header of a file.
func AppendFileHeader(dst []byte, v Version) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = le.AppendUint16(dst, v.Major)
	dst = le.AppendUint16(dst, v.Minor)
	return le.AppendUint32(dst, Checksum(dst[start:]))
}

// A Header precedes the payload of a block.
type Header struct {
	Type   uint8  // offset 4
	Seq    uint32 // offset 8: number of the block in the file, from 0
	Length uint32 // offset 12: bytes of payload
	CRC    uint32 // offset 16: of the payload
}

// Size is the number of bytes of the block.
func (h Header) Size() int64 { return HeaderSize + int64(h.Length) }

// put writes the header over the first HeaderSize bytes of b.
func (h Header) put(b []byte) {
	copy(b, marker)
	le.PutUint32(b[4:], uint32(h.Type)) // and three reserved bytes
	le.PutUint32(b[8:], h.Seq)
	le.PutUint32(b[12:], h.Length)
	le.PutUint32(b[16:], h.CRC)
	le.PutUint32(b[20:], Checksum(b[:20]))
}

// AppendBlock appends a block.
func AppendBlock(dst []byte, typ uint8, seq uint32, payload []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst = append(dst, payload...)
	Header{Type: typ, Seq: seq, Length: uint32(len(payload)), CRC: Checksum(payload)}.put(dst[start:])
	return dst
}

// ParseHeader reports whether b begins with the intact header of a block.
func ParseHeader(b []byte) (Header, bool) {
	if len(b) < HeaderSize || !bytes.HasPrefix(b, marker) || le.Uint32(b[20:]) != Checksum(b[:20]) {
		return Header{}, false
	}
	h := Header{Type: b[4], Seq: le.Uint32(b[8:]), Length: le.Uint32(b[12:]), CRC: le.Uint32(b[16:])}
	return h, h.Length <= schema.MaxPayload
}

// AppendTrailer appends the last bytes of a finished file, which locate its footer.
func AppendTrailer(dst []byte, footer uint64) []byte {
	start := len(dst)
	dst = append(dst, trailerMagic...)
	dst = le.AppendUint64(dst, footer)
	dst = le.AppendUint32(dst, 0)
	return le.AppendUint32(dst, Checksum(dst[start:]))
}

// ParseTrailer returns the offset of the footer.
func ParseTrailer(b []byte) (footer uint64, ok bool) {
	if len(b) != TrailerSize || !bytes.HasPrefix(b, trailerMagic) || le.Uint32(b[20:]) != Checksum(b[:20]) {
		return 0, false
	}
	return le.Uint64(b[8:]), true
}
