package columns

import (
	"encoding/binary"
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
	if v < 8 {
		return byte(v), 0
	}
	n := uint(bits.Len64(v))
	return byte(8 + 4*(n-4) + uint(v>>(n-3))&3), n - 3
}

// joinOne is the number of low bits of a symbol, and the number with all of them 0.
func joinOne(symbol byte) (base uint64, low uint) {
	if symbol < 8 {
		return uint64(symbol), 0
	}
	low = uint(symbol-8)/4 + 1
	return uint64(4|symbol&3) << low, low
}

// A bitWriter packs low bits into bytes, the first in the lowest bit.
type bitWriter struct {
	buf  []byte
	acc  uint64
	used uint
}

func (w *bitWriter) write(v uint64, n uint) {
	v &= 1<<n - 1
	w.acc |= v << w.used
	if w.used+n < 64 {
		w.used += n
		return
	}
	w.buf = le.AppendUint64(w.buf, w.acc)
	w.acc = v >> (64 - w.used) // 0 for a shift of 64
	w.used += n - 64
}

// flush pads with zero bits to a whole byte.
func (w *bitWriter) flush() {
	for ; w.used > 0; w.used -= min(w.used, 8) {
		w.buf = append(w.buf, byte(w.acc))
		w.acc >>= 8
	}
	w.acc = 0
}

// symbolForms has the result of joinOne for each symbol.
var symbolForms = func() (forms [256]symbolForm) {
	for s := range lastSymbol + 1 {
		base, low := joinOne(byte(s))
		forms[s] = symbolForm{base, 1<<low - 1, uint8(low)}
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
