// Package deflate compresses the packets of a trace.
//
// Input: a block of bytes, and the end of the block before it. Output: the bytes of a DEFLATE
// stream (RFC 1951).
//
// Packets of one kind follow each other and differ in a few numbers of two or three bytes. The
// bytes between these numbers are often just three, fewer than the shortest match of Go's
// compressors. A packet that is equal except for its numbers lies tens of packets back; Go's
// compressors try all packets in between, or give up before. docs/performance.md gives the
// effect on a trace.
package deflate

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

const (
	// Window is the largest distance of a match, bytes.
	Window = 32 << 10

	minMatch = 3
	maxMatch = 258

	// blockTokens is the number of tokens that share a code. With fewer tokens the code
	// fits the packets more closely, but the codes themselves take more room.
	blockTokens = 1 << 14

	// leastTokens is the number of tokens from which on packets of another sequence begin a block.
	leastTokens = 1 << 10
)

// A Compressor compresses one piece of data after another. The zero value is ready for use. The
// result depends on the data alone.
type Compressor struct {
	fives  [1 << fiveBits]int32  // by hash of five bytes: bias + their latest position
	threes [1 << threeBits]int32 // by hash of three bytes: bias + their latest position

	walk        walk
	prices      prices
	tokens      []token
	ofLiterals  [firstLength + symbolMask + 1]uint32 // number of tokens with a symbol
	ofDistances [symbolMask + 1]uint32

	literalCode, distanceCode, lengthCode    code
	usedLiterals, usedDistances, usedLengths int // numbers of symbols that are written
	lengths                                  []uint8
	runs                                     []run
	lengthWords                              [256]uint32
	lengthBits                               [256]uint8
	literalWords                             [256]word
	distanceWords                            [symbolMask + 1]word // by symbol
}

const (
	fiveBits  = 14
	threeBits = 12

	// bias makes the distance to an unused place too large for a match.
	bias = Window + 1
)

func hashFive(data []byte, p int) uint64 {
	return binary.LittleEndian.Uint64(data[p:]) << 24 * 0x9E3779B97F4A7C15 >> (64 - fiveBits)
}

func hashThree(data []byte, p int) uint32 {
	return binary.LittleEndian.Uint32(data[p:]) << 8 * 0x9E3779B1 >> (32 - threeBits)
}

// Append compresses data from a position on and appends the result to dst. The data before the
// position has been compressed before; matches may refer to its last Window bytes. The result
// ends at a byte; with last it ends the stream. Data has less than 1 GiB.
func (c *Compressor) Append(dst, data []byte, from int, last bool) []byte {
	data = data[max(0, from-Window):]
	from = min(from, Window)
	c.learn(data, from)
	c.prices.begin()
	w := bitWriter{b: slices.Grow(dst, 64)}
	done := c.parse(&w, data, from)
	if last || done < len(data) {
		c.block(&w, data[done:], last)
	}
	if last {
		w.align()
	} else {
		w.stored(nil, false) // ends at a byte
	}
	return w.b
}

// Bytes at the window's end that learn enters. With all of the window, a trace has 0.003 % fewer bytes, and compressing takes 4 % more time.
const (
	learntFives  = 8 << 10
	learntThrees = 2 << 10
)

// learn empties the tables and enters the last bytes before a position.
func (c *Compressor) learn(data []byte, before int) {
	clear(c.fives[:])
	clear(c.threes[:])
	end := min(before, len(data)-7)
	for p := max(0, before-learntFives); p < end; p++ {
		c.fives[hashFive(data, p)] = int32(p + bias)
	}
	for p := max(0, before-learntThrees); p < end; p++ {
		c.threes[hashThree(data, p)] = int32(p + bias)
	}
}

const (
	// ahead is the number of bytes in which a long match must begin.
	ahead = 8

	// further is the number of bytes after the begin of a match in which a better match may
	// begin.
	further = 6

	// leastLong is the smallest length of a long match, leastFar that of a long match that
	// is far away.
	leastLong = 8
	leastFar  = 12
	far       = 1 << 9
)

// parse turns data into tokens, and the tokens into blocks except for the last block. It
// returns the position at which the last block begins.
func (c *Compressor) parse(w *bitWriter, data []byte, from int) (begin int) {
	begin = from
	walking := c.walk.begin(data, from)
	for p := from; p < len(data); {
		if n := len(c.tokens); walking && c.walk.changes(data) && n >= leastTokens || n >= blockTokens-2*ahead {
			c.prices.due = pricedTokens
			c.block(w, data[begin:p], false)
			begin = p
		}
		if len(c.tokens) >= c.prices.due {
			c.prices.update(c.ofLiterals[:literals], c.ofDistances[:distances])
			c.prices.due = len(c.tokens) + pricedTokens
		}
		if !walking {
			p = c.next(data, p)
			continue
		}
		if size := packetAt(data, c.walk.at); size > 0 {
			p = c.packet(data, p, size)
			continue
		}
		walking = false
		end := min(c.walk.at, len(data))
		c.rest(data, p, end, c.walk.size)
		p = end
	}
	return begin
}

// next turns some bytes into tokens: those up to the next long match and this match. It returns the position after them.
// The bytes between long matches, the numbers in which packets differ, become short matches
// nearby and literals.
func (c *Compressor) next(data []byte, p int) int {
	start, length, distance := c.long(data, p)
	if length == 0 {
		return c.gap(data, p, min(p+ahead, len(data)), len(data))
	}
	c.gap(data, p, start, start)
	c.match(length, distance)
	return start + length
}

// gap turns the bytes between two long matches, from p to end, into tokens. The last token may
// reach up to limit. It returns the position after the last token.
func (c *Compressor) gap(data []byte, p, end, limit int) int {
	for p < end {
		if p+4 <= len(data) {
			slot := &c.threes[hashThree(data, p)]
			distance := p + bias - int(*slot)
			*slot = int32(p + bias)
			if uint(distance-1) < Window {
				length := common(data, p-distance, p, min(maxMatch, limit-p))
				if pays(length, distance) {
					c.match(length, distance)
					p += length
					continue
				}
			}
		}
		c.literal(data[p])
		p++
	}
	return p
}

// pays says whether a match takes fewer bits than its bytes as literals.
func pays(length, distance int) bool {
	switch length {
	case 0, 1, 2:
		return false
	case 3:
		return distance <= 1<<9
	case 4:
		return distance <= 1<<12
	default:
		return true
	}
}

// long looks for a long match that begins at p or soon after, and returns the one that saves
// most. The length is 0 if there is none.
func (c *Compressor) long(data []byte, p int) (start, length, distance int) {
	var saved int
	var end, last int // of the latest candidate: its end, its distance
	var grown bool    // it was extended
	edge, edgeAt := -1, 0
	until := min(p+ahead, len(data)-leastLong+1)
	for q := p; q < until; q++ {
		slot := &c.fives[hashFive(data, q)]
		d := q + bias - int(*slot)
		*slot = int32(q + bias)
		if uint(d-1) >= Window {
			continue
		}
		limit := min(maxMatch, len(data)-q)
		n := end - q
		if d != last {
			n = common(data, q-d, q, limit)
			end, last, grown = q+n, d, false
		}
		if n < leastLong || n < leastFar && d > far || grown {
			continue
		}
		if length == 0 {
			until = min(until, q+further)
		}
		// The bytes that differ at the end of this match have occurred before: at their
		// latest occurrence lies an equal packet.
		for n < limit-leastLong {
			if e := q + n; e != edge {
				slot := &c.fives[hashFive(data, e)]
				edge, edgeAt = e, int(*slot)
				*slot = int32(e + bias)
			}
			back := edge + bias - edgeAt
			if uint(back-1) >= Window || back == d || back > q {
				break
			}
			m := common(data, q-back, q, limit)
			if m < n+4 {
				break
			}
			n, d, grown = m, back, true
		}
		from := q
		for from > p && d < from && data[from-1] == data[from-1-d] && n < maxMatch {
			from--
			n++
		}
		if s := saving(from-p, n, d); length == 0 || s > saved {
			saved, start, length, distance = s, from, n, d
		}
		if start == p && n > 32 {
			break
		}
	}
	return start, length, distance
}

// saving estimates the bits that a long match saves when some unmatched bytes come before it.
func saving(gap, length, distance int) int {
	return 4*(gap+length) - 5*gap - bits.Len(uint(distance))
}

func (c *Compressor) literal(b byte) {
	c.tokens = append(c.tokens, token(b))
	c.ofLiterals[b]++
}

func (c *Compressor) match(length, distance int) {
	symbol := distanceSymbol(distance)
	c.tokens = append(c.tokens, newMatch(length, distance, symbol))
	c.ofLiterals[firstLength+int(lengthSymbols[uint8(length-minMatch)]&symbolMask)]++
	c.ofDistances[symbol&symbolMask]++
}

// load returns the eight bytes from p on.
func load(data []byte, p int) uint64 { return binary.LittleEndian.Uint64(data[p:]) }

// common is the number of equal bytes from a and from b on, up to limit.
func common(data []byte, a, b, limit int) int {
	y := data[b : b+limit]
	x := data[a:][:len(y)] // of one length, so that the loop checks no bounds
	n := 0
	for ; n <= len(y)-8; n += 8 {
		if d := binary.LittleEndian.Uint64(x[n:n+8]) ^ binary.LittleEndian.Uint64(y[n:n+8]); d != 0 {
			return n + bits.TrailingZeros64(d)/8
		}
	}
	for n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

// equalBytes reports whether n bytes from a and from b on are equal, n at least 8. Packets differ at their ends, which come first.
func equalBytes(data []byte, a, b, n int) bool {
	return load(data, a+n-8) == load(data, b+n-8) && common(data, a, b, n) == n
}
