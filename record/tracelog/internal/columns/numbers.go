package columns

import (
	"encoding/binary"
	"math"
	"math/bits"
)

var le = binary.LittleEndian

// Zigzag maps numbers of small magnitude, negative ones too, to small numbers.
func Zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

// Unzigzag is the inverse of Zigzag.
func Unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// uvarints decodes one number for each element of dst and returns what follows.
func uvarints(dst []uint64, b []byte) ([]byte, bool) {
	for i := range dst {
		if len(b) > 0 && b[0] < 0x80 {
			dst[i], b = uint64(b[0]), b[1:]
			continue
		}
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, false
		}
		dst[i], b = v, b[n:]
	}
	return b, true
}

// A number is split into a symbol, which gives its length and its leading bits,
// and its remaining low bits. Symbols compress well, the low bits not at all:
//
//	v < 8    symbol v, no bits
//	v >= 8   with n = significant bits of v (4..64) and t = the two bits below the
//	         leading one: symbol 8 + 4(n-4) + t, then the n-3 lowest bits of v
const lastSymbol = 8 + 4*(64-4) + 3

// splitOne returns the symbol of v and the number of low bits that complete it.
func splitOne(v uint64) (symbol byte, low uint) {
	low = uint(bits.Len64(v|4)) - 3
	return byte(4*low) + byte(v>>(low&63)), low
}

// joinOne is the number of low bits of a symbol, and the number with all of them 0.
func joinOne(symbol byte) (base uint64, low uint) {
	if symbol < 8 {
		return uint64(symbol), 0
	}
	low = uint(symbol-8)/4 + 1
	return uint64(4|symbol&3) << low, low
}

// splitAll splits numbers into a symbol for each and the bits of all of them, the first in the
// lowest bit. It returns the bits, which are in room: room has 8 bytes for each number and 8 more.
func splitAll(symbols, room []byte, vals []uint64) []byte {
	var acc uint64 // the bits behind room[:at]
	at, used := 0, uint(0)
	symbols = symbols[:len(vals)]
	for i, v := range vals {
		symbol, low := splitOne(v)
		symbols[i] = symbol
		v &= 1<<(low&63) - 1
		acc |= v << (used & 63)
		le.PutUint64(room[at:at+8], acc)
		if used += low; used >= 64 {
			at, used = at+8, used-64
			acc = v >> (low - used)
		}
		at += int(used >> 3)
		acc >>= used & 0x38
		used &= 7
	}
	le.PutUint64(room[at:at+8], acc)
	return room[:at+int(used+7)/8]
}

// symbolForms has the result of joinOne for each symbol. One that does not exist has more
// bits than any other.
var symbolForms = func() (forms [256]symbolForm) {
	for s := range lastSymbol + 1 {
		base, low := joinOne(byte(s))
		forms[s] = symbolForm{base, 1<<low - 1, uint8(low)}
	}
	for s := lastSymbol + 1; s < len(forms); s++ {
		forms[s].low = math.MaxUint8
	}
	return forms
}()

type symbolForm struct {
	base, mask uint64
	low        uint8
}

// bitsAt reads n bits, at most 61, that a bitWriter packed, from bit pos on. Beyond
// the end it reads zeros: its caller has made sure that there are enough bits.
func bitsAt(b []byte, pos, n uint) uint64 {
	at, shift := pos>>3, pos&7
	if at+9 > uint(len(b)) {
		return bitsAtEnd(b, pos, n)
	}
	v := le.Uint64(b[at:]) >> shift
	if n > 57 {
		v |= uint64(b[at+8]) << (64 - shift) // 0 for a shift of 64
	}
	return v & (1<<n - 1)
}

func bitsAtEnd(b []byte, pos, n uint) uint64 {
	var last [17]byte
	at := min(pos>>3, uint(len(b)))
	copy(last[:8+1], b[at:])
	return bitsAt(last[:], pos&7, n)
}
