package perfetto

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// A buffer is a protobuf message that grows field by field.
type buffer struct {
	b []byte
}

// tag appends the number and the wire type of a field.
func (b *buffer) tag(f field, t protowire.Type) {
	if f < 16 { // nearly always
		b.b = append(b.b, byte(f)<<3|byte(t))
		return
	}
	b.b = protowire.AppendTag(b.b, protowire.Number(f), t)
}

// uint appends a varint.
func (b *buffer) uint(f field, v uint64) {
	b.tag(f, protowire.VarintType)
	b.b = appendVarint(b.b, v)
}

// appendVarint appends a varint. Most are short.
func appendVarint(b []byte, v uint64) []byte {
	switch {
	case v < 1<<7:
		return append(b, byte(v))
	case v < 1<<14:
		return append(b, byte(v)|0x80, byte(v>>7))
	case v < 1<<21:
		return append(b, byte(v)|0x80, byte(v>>7)|0x80, byte(v>>14))
	}
	return protowire.AppendVarint(b, v)
}

// fixed appends the bits of a 64-bit floating-point number.
func (b *buffer) fixed(f field, bits uint64) {
	b.tag(f, protowire.Fixed64Type)
	b.b = protowire.AppendFixed64(b.b, bits)
}

// text appends a string, even an empty one.
func (b *buffer) text(f field, s string) {
	b.tag(f, protowire.BytesType)
	b.b = protowire.AppendString(b.b, clean(s))
}

// optional appends a string unless it is empty.
func (b *buffer) optional(f field, s string) {
	if s != "" {
		b.text(f, s)
	}
}

// bytes appends a string of bytes.
func (b *buffer) bytes(f field, p []byte) {
	b.tag(f, protowire.BytesType)
	b.b = protowire.AppendBytes(b.b, p)
}

// open begins a nested message, which close ends. open leaves one byte for the length,
// because nearly all messages are shorter than 128 bytes. close moves a longer message.
func (b *buffer) open(f field) (start int) {
	b.tag(f, protowire.BytesType)
	b.b = append(b.b, 0)
	return len(b.b)
}

func (b *buffer) close(start int) {
	n := len(b.b) - start
	if n < 0x80 {
		b.b[start-1] = byte(n)
		return
	}
	var space [10]byte
	length := protowire.AppendVarint(space[:0], uint64(n))
	b.b = slices.Insert(b.b, start, length[1:]...)
	b.b[start-1] = length[0]
}

// clean replaces invalid UTF-8, and NUL, since the trace processor ends a string at NUL.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	const replacement = "\uFFFD"
	return strings.ReplaceAll(strings.ToValidUTF8(s, replacement), "\x00", replacement)
}
