package perfetto

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

func TestBufferFields(t *testing.T) {
	t.Parallel()
	for _, f := range []field{1, 15, 16, 127, 2047, 2048, 3000, 1 << 20} {
		number := protowire.Number(f)
		for _, v := range edges() {
			var b buffer
			b.uint(f, v)
			b.fixed(f, v)
			want := protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
			want = protowire.AppendFixed64(protowire.AppendTag(want, number, protowire.Fixed64Type), v)
			if !bytes.Equal(b.b, want) {
				t.Errorf("field %d with %d is %x, want %x", f, v, b.b, want)
			}
		}
		var b buffer
		b.text(f, "a")
		b.optional(f, "")
		b.optional(f, "b")
		b.bytes(f, []byte{0, 0xff})
		want := protowire.AppendTag(nil, number, protowire.BytesType)
		want = bytes.Join([][]byte{nil, {1, 'a'}, nil}, want)
		want = append(append(want, 1, 'b'), append(protowire.AppendTag(nil, number, protowire.BytesType), 2, 0, 0xff)...)
		if !bytes.Equal(b.b, want) {
			t.Errorf("texts in field %d are %x, want %x", f, b.b, want)
		}
	}
}

// edges are numbers at which the size of a varint changes.
func edges() (list []uint64) {
	for bit := range 64 {
		list = append(list, 1<<bit-1, 1<<bit, 1<<bit|1)
	}
	return append(list, ^uint64(0))
}

// A message may be of any size, and hold messages.
func TestBufferNested(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 120, 126, 127, 128, 129, 16_383, 16_384, 1 << 21} {
		var b buffer
		outer := b.open(1)
		inner := b.open(2)
		b.b = append(b.b, make([]byte, size)...)
		b.close(inner)
		b.uint(3, 5)
		b.close(outer)
		want := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), make([]byte, size))
		want = append(want, 3<<3, 5)
		want = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), want)
		if !bytes.Equal(b.b, want) {
			t.Errorf("a message in a message is wrong with %d bytes inside", size)
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"":              "",
		"plain ß":       "plain ß",
		"a\x00b":        "a\uFFFDb",
		"\xff\xfe":      "\uFFFD",
		"a\xf0\x28\x00": "a\uFFFD(\uFFFD",
	} {
		if got := clean(s); got != want || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Errorf("%q is cleaned to %q, want %q", s, got, want)
		}
	}
}
