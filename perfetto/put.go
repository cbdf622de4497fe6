package perfetto

import (
	"encoding/binary"
	"math/bits"
)

// Events are put into memory that is known to have room for them, which takes a part of
// the time of appending: nothing is asked for twice, and a short number is stored in one
// go with the room behind it.

// putSlack is by how much more than an event takes its memory must have room.
const putSlack = 24

var le = binary.LittleEndian

// room returns the memory behind what a lane holds: at least n bytes and putSlack.
func (l *lane) room(n int) []byte {
	have := len(l.held.b)
	if cap(l.held.b)-have < n+putSlack {
		grown := make([]byte, have, max(2*have, l.w.piece+laneSlack, have+n+putSlack))
		copy(grown, l.held.b)
		l.held.b = grown
	}
	return l.held.b[have:cap(l.held.b)]
}

// put takes note that n bytes were put into the room, which are an event of time ts.
func (l *lane) put(n int, ts uint64) {
	l.held.b = l.held.b[:len(l.held.b)+n]
	l.last = ts
	w := l.w
	w.held += n
	if len(l.held.b) >= w.piece || w.closed || w.held > heldBytes {
		l.full()
	}
}

// putVarint stores v at b[i:] and returns where it ends. b has 8 bytes more than that.
func putVarint(b []byte, i int, v uint64) int {
	if v < 1<<7 {
		b[i] = byte(v)
		return i + 1
	}
	if v < 1<<14 {
		le.PutUint16(b[i:], uint16(v&0x7f|v<<1&0x7f00|0x80))
		return i + 2
	}
	return putLong(b, i, v)
}

// putLong stores a number of up to 28 bits in one go.
func putLong(b []byte, i int, v uint64) int {
	for v >= 1<<28 {
		le.PutUint32(b[i:], uint32(v&0x7f|v<<1&0x7f00|v<<2&0x7f0000|v<<3&0x7f000000|0x80808080))
		v >>= 28
		i += 4
	}
	n := sizeVarint(v)
	more := uint64(0x80808080) & (1<<(8*(n-1)) - 1)
	le.PutUint32(b[i:], uint32(v&0x7f|v<<1&0x7f00|v<<2&0x7f0000|v<<3&0x7f000000|more))
	return i + n
}

// sizeVarint is the number of bytes that a number takes, at 7 bits each.
func sizeVarint(v uint64) int { return (bits.Len64(v|1)*9 + 64) / 64 }

// A short is a piece of an encoded message, of at most 16 bytes, that two stores put down.
type short struct {
	low, high uint64
	n         int
}

func newShort(pieces ...[]byte) (s short) {
	var all [16]byte
	for _, b := range pieces {
		s.n += copy(all[s.n:], b)
	}
	s.low, s.high = le.Uint64(all[:]), le.Uint64(all[8:])
	return s
}

func (s *short) put(b []byte, i int) int {
	to := b[i : i+16]
	le.PutUint64(to, s.low)
	le.PutUint64(to[8:], s.high)
	return i + s.n
}
