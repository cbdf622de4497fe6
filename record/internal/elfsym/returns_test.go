package elfsym

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestReturnsX86 looks for the ends of functions of x86-64.
func TestReturnsX86(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, code string
		want       []uint64
	}{
		{"one return", "f30f1efa 55 4889e5 5d c3", []uint64{9}},
		{"two returns", "85ff 7401 c3 31c0 c3", []uint64{4, 7}},
		{"a return with operand", "31c0 c20800", []uint64{2}},
		{"a loop", "ffcf 75fc c3", []uint64{4}},
		{"ends in a call that does not return", "7401 c3 e800000000", []uint64{2}},
		{"ends in a trap", "7401 c3 0f0b", []uint64{2}},
		{"a tail jump", "31c0 7401 c3 e900100000", nil},
		{"a jump on condition to elsewhere", "0f8400100000 c3", nil},
		{"a jump by a register", "7401 c3 ffe0", nil},
		{"a jump by memory", "f2ff2500000000", nil},
		{"goes on behind its end", "7401 c3 31c0", nil},
		{"a return that no path reaches", "c3 31c0 c3", nil},
		{"a jump into an instruction", "7401 b8c3000000 c3", nil},
		{"no return", "e800000000", nil},
		{"cut", "7401 c3 e80000", nil},
		{"no code", "", nil},
	} {
		code := must.Get(hex.DecodeString(strings.ReplaceAll(test.code, " ", "")))(t)
		if got := returnsOf(code, decodeX86); !slices.Equal(sorted(got), test.want) {
			t.Errorf("%s: %d, not %d", test.name, got, test.want)
		}
	}
}

// TestReturnsARM64 looks for the ends of functions of arm64.
func TestReturnsARM64(t *testing.T) {
	t.Parallel()
	const (
		ret, nop, blr, br    = 0xd65f03c0, 0xd503201f, 0xd63f0000, 0xd61f0000
		cbz2, beq2, tbz2, b2 = 0xb4000040, 0x54000040, 0x36000040, 0x14000002 // two instructions on
		paciasp, autiasp     = 0xd503233f, 0xd50323bf
		bFar, bBack, brk     = 0x14001000, 0x17ffffff, 0xd4200000
		retX1, unknown       = 0xd65f0020, 0x00000000
	)
	for _, test := range []struct {
		name string
		code []uint32
		want []uint64
	}{
		{"one return", []uint32{paciasp, nop, autiasp, ret}, []uint64{12}},
		{"two returns", []uint32{cbz2, ret, blr, ret}, []uint64{4, 12}},
		{"on a condition", []uint32{beq2, ret, ret}, []uint64{4, 8}},
		{"on a bit", []uint32{tbz2, ret, ret}, []uint64{4, 8}},
		{"a jump", []uint32{b2, brk, ret}, []uint64{8}},
		{"a loop", []uint32{cbz2, bBack, ret}, []uint64{8}},
		{"ends in a call that does not return", []uint32{cbz2, ret, blr}, []uint64{4}},
		{"a tail jump", []uint32{cbz2, ret, bFar}, nil},
		{"a jump by a register", []uint32{cbz2, ret, br}, nil},
		{"a return by another register", []uint32{cbz2, ret, retX1}, nil},
		{"goes on behind its end", []uint32{cbz2, ret, nop}, nil},
		{"a return that no path reaches", []uint32{ret, ret}, nil},
		{"what is no code", []uint32{cbz2, ret, unknown}, nil},
	} {
		var code []byte
		for _, word := range test.code {
			code = binary.LittleEndian.AppendUint32(code, word)
		}
		if got := returnsOf(code, decodeARM64); !slices.Equal(sorted(got), test.want) {
			t.Errorf("%s: %d, not %d", test.name, got, test.want)
		}
	}
}

func sorted(list []uint64) []uint64 {
	slices.Sort(list)
	return list
}
