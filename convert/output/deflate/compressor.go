// Package deflate compresses the packets of a trace. In goes a block of bytes, with the end of
// the block before it; out come the bytes of a DEFLATE stream (RFC 1951).
//
// Packets of one sort follow each other and differ in a few numbers of two or three bytes. The
// bytes between these numbers are often just three, and Go's compressors look for no match under
// four. The packet that is equal but for its numbers lies tens of packets back: these compressors
// go through all packets between, or give up before. docs/performance.md has the sizes.
package deflate

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

const (
	// Window is how far back a match may begin, bytes.
	Window = 32 << 10

	minMatch = 3
	maxMatch = 258

	// blockTokens is how many tokens share a code. Fewer follow more closely what packets there
	// are, and have the code itself more often.
	blockTokens = 1 << 14
)

// A Compressor compresses one piece of data after the other. The zero value is ready. Its result
// depends on the data alone.
type Compressor struct {
	fives  [1 << fiveBits]int32  // bias + where five bytes with a hash began last
	threes [1 << threeBits]int32 // the same of three bytes

	tokens      []token
	ofLiterals  [literals]uint32 // how often the tokens have a symbol
	ofDistances [distances]uint32

	literalCode, distanceCode, lengthCode    code
	usedLiterals, usedDistances, usedLengths int // symbols of these that are written down
	lengths                                  []uint8
	runs                                     []run
	lengthWords                              [maxMatch - minMatch + 1]uint32
	lengthBits                               [maxMatch - minMatch + 1]uint8
}

const (
	fiveBits  = 14
	threeBits = 12

	// bias makes a place that is not taken too far away.
	bias = Window + 1
)

func hashFive(data []byte, p int) uint64 {
	return binary.LittleEndian.Uint64(data[p:]) << 24 * 0x9E3779B97F4A7C15 >> (64 - fiveBits)
}

func hashThree(data []byte, p int) uint32 {
	return binary.LittleEndian.Uint32(data[p:]) << 8 * 0x9E3779B1 >> (32 - threeBits)
}

// Append compresses data from a position on, and appends that to dst. What stands before the
// position is what has been compressed before; its last Window bytes are referred to. What
// is appended ends at a byte, and is the end of the stream if it is the last. Data has less than
// 1 GiB.
func (c *Compressor) Append(dst, data []byte, from int, last bool) []byte {
	data = data[max(0, from-Window):]
	from = min(from, Window)
	c.learn(data, from)
	w := bitWriter{b: slices.Grow(dst, 64)}
	done := c.parse(&w, data, from)
	if last || done < len(data) {
		c.block(&w, data[done:], last)
	}
	if last {
		w.align()
	} else {
		w.stored(nil, false) // it ends at a byte
	}
	return w.b
}

// learn begins anew, with what stands before a position.
func (c *Compressor) learn(data []byte, before int) {
	clear(c.fives[:])
	clear(c.threes[:])
	for p := 0; p < before && p+8 <= len(data); p++ {
		c.fives[hashFive(data, p)], c.threes[hashThree(data, p)] = int32(p+bias), int32(p+bias)
	}
}

const (
	// ahead is within how many bytes a long match is looked for.
	ahead = 8

	// further is within how many bytes of one a better one is.
	further = 6

	// leastLong is how long a long match is at least, and leastFar one that is far away.
	leastLong = 8
	leastFar  = 12
	far       = 1 << 9
)

// parse makes tokens of data, and blocks of these but for the last. It returns where that
// one begins.
//
// It goes from one long match to the next: most of a packet is one. What lies between them,
// the numbers in which packets differ, becomes short matches nearby and literals.
func (c *Compressor) parse(w *bitWriter, data []byte, from int) (begin int) {
	begin = from
	for p := from; p < len(data); {
		if len(c.tokens) >= blockTokens-2*ahead {
			c.block(w, data[begin:p], false)
			begin = p
		}
		start, length, distance := c.long(data, p)
		if length == 0 {
			p = c.gap(data, p, min(p+ahead, len(data)), len(data))
			continue
		}
		c.gap(data, p, start, start)
		c.match(length, distance)
		p = start + length
	}
	return begin
}

// gap makes tokens of what lies between two long matches, from p to end; the last may go on
// to limit. It returns where it came to.
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

// pays says whether a match takes fewer bits than its bytes would.
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

// long looks for a long match that begins at p or soon after: of those that it finds the one that
// saves most. The length is 0 if there is none.
func (c *Compressor) long(data []byte, p int) (start, length, distance int) {
	var saved int
	var end, last int // of the latest candidate: where it ends, its distance
	var grown bool    // it was made longer
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
		// What differs at the end of this match was somewhere last, and there lies an equal packet.
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

// saving compares long matches: in bits, about, for one that comes after some bytes that are none.
func saving(gap, length, distance int) int {
	return 4*(gap+length) - 5*gap - bits.Len(uint(distance))
}

func (c *Compressor) literal(b byte) {
	c.tokens = append(c.tokens, token(b))
	c.ofLiterals[b]++
}

func (c *Compressor) match(length, distance int) {
	c.tokens = append(c.tokens, newMatch(length, distance))
	c.ofLiterals[firstLength+int(lengthSymbols[length-minMatch])]++
	c.ofDistances[distanceSymbol(distance)]++
}

// common is how many bytes from a and from b on are equal, up to limit.
func common(data []byte, a, b, limit int) int {
	at, back, to := b, b-a, b+limit
	for at <= to-8 {
		if x := binary.LittleEndian.Uint64(data[at:]) ^ binary.LittleEndian.Uint64(data[at-back:]); x != 0 {
			return at - b + bits.TrailingZeros64(x)/8
		}
		at += 8
	}
	for at < to && data[at] == data[at-back] {
		at++
	}
	return at - b
}
