package deflate

import (
	"encoding/binary"
	"slices"
)

// A token is a literal byte, or a match: its length, its distance and the distance's symbol.
type token uint32

const (
	matchToken  token = 1 << 31
	symbolShift       = 24
	symbolMask        = 31
	lengthShift       = 16
)

func newMatch(length, distance int, symbol uint8) token {
	return matchToken | token(symbol)<<symbolShift | token(length-minMatch)<<lengthShift | token(distance-1)
}

func (t token) distance() int { return int(t&0x7fff) + 1 }

// Symbols of RFC 1951, 3.2.5.
const (
	endOfBlock  = 256
	firstLength = 257
	literals    = 286
	distances   = 30
	maxWord     = 15
)

// A rangeOf is the range of lengths or distances of a symbol: the values from a base on, which
// extra bits tell apart.
type rangeOf struct {
	base  uint16
	extra uint8
}

var (
	lengthRanges   [literals - firstLength]rangeOf
	distanceRanges [distances]rangeOf
	lengthSymbols  [256]uint8 // by length - minMatch
	nearSymbols    [256]uint8 // by distance - 1
	farSymbols     [256]uint8 // by (distance - 1) / 128
)

func init() {
	base := minMatch
	for s := range lengthRanges {
		extra := max(0, s/4-1)
		lengthRanges[s] = rangeOf{uint16(base), uint8(extra)}
		for i := range 1 << extra {
			if l := base + i - minMatch; l < len(lengthSymbols) {
				lengthSymbols[l] = uint8(s)
			}
		}
		base += 1 << extra
	}
	last := len(lengthRanges) - 1 // the greatest length has a symbol of its own
	lengthRanges[last] = rangeOf{maxMatch, 0}
	lengthSymbols[maxMatch-minMatch] = uint8(last)

	base = 1
	for s := range distanceRanges {
		extra := max(0, s/2-1)
		distanceRanges[s] = rangeOf{uint16(base), uint8(extra)}
		for i := range 1 << extra {
			if d := base + i - 1; d < len(nearSymbols) {
				nearSymbols[d] = uint8(s)
			} else {
				farSymbols[d>>7] = uint8(s)
			}
		}
		base += 1 << extra
	}
}

func distanceSymbol(d int) uint8 {
	if d <= len(nearSymbols) {
		return nearSymbols[uint8(d-1)]
	}
	return farSymbols[uint8((d-1)>>7)]
}

// A bitWriter appends bits, the first lowest in a byte.
type bitWriter struct {
	b    []byte
	bits uint64 // not yet in b
	n    uint   // number of these bits
}

// put appends up to 48 bits.
func (w *bitWriter) put(v uint64, n uint) {
	w.bits |= v << w.n
	w.n += n
	w.flush()
}

// flush writes the whole bytes; fewer than 8 bits stay. There must be room for 8 bytes.
func (w *bitWriter) flush() {
	i := len(w.b)
	binary.LittleEndian.PutUint64(w.b[i:i+8], w.bits)
	full := w.n >> 3
	w.b = w.b[:i+int(full)]
	w.bits >>= full * 8
	w.n &= 7
}

// align fills the last byte.
func (w *bitWriter) align() {
	w.n = (w.n + 7) &^ 7
	w.flush()
}

// stored appends uncompressed bytes, in blocks of their own.
func (w *bitWriter) stored(b []byte, last bool) {
	for first := true; first || len(b) > 0; first = false {
		n := min(len(b), 1<<16-1)
		w.b = slices.Grow(w.b, n+32)
		w.put(flag(last && n == len(b)), 3)
		w.align()
		w.put(uint64(n)|uint64(n^0xffff)<<16, 32)
		w.b = append(w.b, b[:n]...)
		b = b[n:]
	}
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

const (
	kindCodes = 2 // a block with codes of its own
	tokenRoom = 6 // most bytes that a token takes
	codesRoom = 1 << 10
)

// block appends the tokens as a block. data is the same content uncompressed.
func (c *Compressor) block(w *bitWriter, data []byte, last bool) {
	c.ofLiterals[endOfBlock]++
	ofLiterals, ofDistances := c.ofLiterals[:literals], c.ofDistances[:distances]
	c.literalCode.make(ofLiterals, maxWord)
	c.distanceCode.make(ofDistances, maxWord)
	size := c.codeLengths()
	size += c.literalCode.cost(ofLiterals) + c.distanceCode.cost(ofDistances)
	for s, r := range lengthRanges {
		size += int(c.ofLiterals[firstLength+s]) * int(r.extra)
	}
	for s, r := range distanceRanges {
		size += int(c.ofDistances[s]) * int(r.extra)
	}
	if size/8 >= len(data)+4 {
		w.stored(data, last)
	} else {
		w.b = slices.Grow(w.b, codesRoom+tokenRoom*len(c.tokens))
		w.put(flag(last)|kindCodes<<1, 3)
		c.putCodes(w)
		c.putTokens(w)
	}
	c.tokens = c.tokens[:0]
	clear(c.ofLiterals[:])
	clear(c.ofDistances[:])
}

// A word is what a token adds to the stream, and the number of its bits. For a distance, all is the number with the extra
// bits, which tell how far the distance is from base.
type word struct {
	bits, base  uint16
	length, all uint8
}

func (c *Compressor) putTokens(w *bitWriter) {
	words, lengths := c.literalCode.words, c.literalCode.lengths
	for b := range c.literalWords {
		c.literalWords[b] = word{bits: words[b], length: lengths[b]}
	}
	for l, s := range lengthSymbols { // with their extra bits
		n := uint(lengths[firstLength+int(s)])
		r := lengthRanges[s]
		c.lengthWords[l] = uint32(words[firstLength+int(s)]) | uint32(l+minMatch-int(r.base))<<n
		c.lengthBits[l] = uint8(n) + r.extra
	}
	for s, r := range distanceRanges {
		n := c.distanceCode.lengths[s]
		c.distanceWords[s] = word{c.distanceCode.words[s], r.base, n, n + r.extra}
	}
	all, held, n := w.b[:cap(w.b)], w.bits, w.n
	i := len(w.b)
	for _, t := range c.tokens {
		if t&matchToken == 0 {
			l := c.literalWords[uint8(t)]
			held |= uint64(l.bits) << (n & 63)
			n += uint(l.length)
		} else {
			l := uint8(t >> lengthShift)
			held |= uint64(c.lengthWords[l]) << (n & 63)
			n += uint(c.lengthBits[l])
			d := c.distanceWords[t>>symbolShift&symbolMask]
			held |= (uint64(d.bits) | uint64(t.distance()-int(d.base))<<(d.length&63)) << (n & 63)
			n += uint(d.all)
		}
		binary.LittleEndian.PutUint64(all[i:], held)
		i += int(n >> 3)
		held >>= n & 0x38
		n &= 7
	}
	w.b, w.bits, w.n = all[:i], held, n
	w.put(uint64(words[endOfBlock]), uint(lengths[endOfBlock]))
}

// The lengths of both codes are themselves coded (RFC 1951, 3.2.7).
const (
	lengthLimit = 7
	repeatLast  = 16 // 3 to 6 times, 2 bits
	zeros       = 17 // 3 to 10, 3 bits
	manyZeros   = 18 // 11 to 138, 7 bits
	codeSymbols = 19
)

var (
	codeOrder = [codeSymbols]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	codeExtra = [codeSymbols]uint8{repeatLast: 2, zeros: 3, manyZeros: 7}
)

// A run is a symbol of the code for lengths, and its extra bits.
type run struct{ symbol, extra uint8 }

// codeLengths makes the code for the lengths of both codes. It returns the size of all three
// codes, bits.
func (c *Compressor) codeLengths() int {
	c.usedLiterals, c.usedDistances = used(c.literalCode.lengths, 257), used(c.distanceCode.lengths, 1)
	c.lengths = append(append(c.lengths[:0], c.literalCode.lengths[:c.usedLiterals]...), c.distanceCode.lengths[:c.usedDistances]...)
	c.runs = c.runs[:0]
	var counts [codeSymbols]uint32
	for i := 0; i < len(c.lengths); {
		v, n := c.lengths[i], 1
		for i+n < len(c.lengths) && c.lengths[i+n] == v {
			n++
		}
		i += n
		c.runOf(v, n)
	}
	size := 3 + 5 + 5 + 4
	for _, r := range c.runs {
		counts[r.symbol]++
		size += int(codeExtra[r.symbol])
	}
	c.lengthCode.make(counts[:], lengthLimit)
	c.usedLengths = codeSymbols
	for c.usedLengths > 4 && c.lengthCode.lengths[codeOrder[c.usedLengths-1]] == 0 {
		c.usedLengths--
	}
	return size + 3*c.usedLengths + c.lengthCode.cost(counts[:])
}

// runOf appends a run of n equal lengths.
func (c *Compressor) runOf(v uint8, n int) {
	if v != 0 {
		c.runs = append(c.runs, run{v, 0})
		n--
	}
	for n > 0 {
		switch {
		case v == 0 && n >= 11:
			k := min(n, 138)
			c.runs = append(c.runs, run{manyZeros, uint8(k - 11)})
			n -= k
		case v == 0 && n >= 3:
			c.runs = append(c.runs, run{zeros, uint8(n - 3)})
			n = 0
		case v != 0 && n >= 3:
			k := min(n, 6)
			c.runs = append(c.runs, run{repeatLast, uint8(k - 3)})
			n -= k
		default:
			c.runs = append(c.runs, run{v, 0})
			n--
		}
	}
}

// used is the number of lengths up to the last that is not 0, and at least a minimum.
func used(lengths []uint8, least int) int {
	n := len(lengths)
	for n > least && lengths[n-1] == 0 {
		n--
	}
	return n
}

func (c *Compressor) putCodes(w *bitWriter) {
	w.put(uint64(c.usedLiterals-257)|uint64(c.usedDistances-1)<<5|uint64(c.usedLengths-4)<<10, 14)
	for _, s := range codeOrder[:c.usedLengths] {
		w.put(uint64(c.lengthCode.lengths[s]), 3)
	}
	for _, r := range c.runs {
		n := uint(c.lengthCode.lengths[r.symbol])
		w.put(uint64(c.lengthCode.words[r.symbol])|uint64(r.extra)<<n, n+uint(codeExtra[r.symbol]))
	}
}
