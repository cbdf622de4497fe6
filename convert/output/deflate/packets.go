package deflate

import (
	"encoding/binary"
	"slices"
)

// A walk goes through the data packet by packet. Programs repeat their calls in the same order, so the packet
// after the source of the latest match is the likely source of the next match.
type walk struct {
	starts []int32 // of the packets so far, ascending
	source int     // index in starts of the latest source
	at     int     // start of the next packet
	size   int     // size of the packet before it
	tail   int     // bytes that packets have behind their match
	edges  []int   // offsets in a packet of the bytes that tell packets apart

	sequence byte // of the packet before, see changes

	edge     int // end of the latest match that onward looked at
	edgeBack int // distance of the three bytes there to their latest place
}

const (
	packetTag   = 0x0a // field 1 of a trace, bytes
	sequenceTag = 0x50 // field 10 of a packet, which comes first

	// synced is the number of packets that must follow each other where a walk begins.
	synced = 4

	// syncBytes bounds the search for the first packet.
	syncBytes = 4 << 10

	// sources bounds the number of packets that a search compares with a packet.
	sources = 5

	// The likely source is taken without a search where the packet has little more than the usual number of bytes behind
	// the match. This number grows slowly, so that some worse matches do not end the search for better ones.
	tailSlack  = 3
	tailGrowth = 2

	// lastBytes is the number of bytes of a packet with which a match of the next packet may begin: a time, of which some
	// bytes repeat.
	lastBytes = 2

	// periods is the number of periods that are searched for a packet behind an equal byte.
	periods = 3

	// mostUnmatched is the most bytes that are left out of a match for a longer one.
	mostUnmatched = 2

	// longRest is the number of bytes at the end of a packet that are compressed without regard to packets.
	longRest = 64
)

// packetAt returns the size of the packet at p, 0 if there is none.
func packetAt(data []byte, p int) int {
	if p+8 > len(data) || data[p] != packetTag {
		return 0
	}
	n, bytes := binary.Uvarint(data[p+1 : p+5])
	if bytes <= 0 || n < 2 || data[p+1+bytes] != sequenceTag {
		return 0
	}
	return 1 + bytes + int(n)
}

// changes reports whether the next packet is of another sequence than the packet before, or only one of the two has a long length.
func (k *walk) changes(data []byte) bool {
	if k.at+8 > len(data) {
		return false
	}
	before := k.sequence
	k.sequence = data[k.at+3] // behind the tag; the tag itself where the length takes two bytes
	return k.sequence != before
}

// begin finds the first packet at or after p. It reports false for data that are no packets.
func (k *walk) begin(data []byte, p int) bool {
	k.starts, k.source, k.size, k.tail, k.edges, k.sequence, k.edge = k.starts[:0], 0, 0, 0, k.edges[:0], 0, -1
	for k.at = p; k.at < p+syncBytes; k.at++ {
		next, n := k.at, 0
		for size := packetAt(data, next); size > 0 && n < synced; size = packetAt(data, next) {
			next += size
			n++
		}
		if n == synced {
			return true
		}
	}
	return false
}

// packet turns the bytes from p up to the next packet into tokens, and the beginning of that packet, of a size, into a
// match. It returns the position after the last token.
func (c *Compressor) packet(data []byte, p, size int) int {
	k := &c.walk
	at := k.at
	length, distance := c.source(data, size)
	if length < leastLong {
		length = 0
	}
	start := at
	if length > 0 {
		start, length, distance = c.earlier(data, p, length, distance)
	}
	c.rest(data, p, start, k.size)
	if length > 0 {
		c.match(length, distance)
	}
	k.starts = append(k.starts, int32(at))
	k.at, k.size = at+size, size
	return start + length
}

// earlier makes a match of the next packet, from its first byte on, begin at its last bytes before, though not
// before p, where that saves room.
func (c *Compressor) earlier(data []byte, p, length, distance int) (start, longer, back int) {
	at := c.walk.at
	start, longer, back = at, length, distance
	equal := at // the first byte from which on the bytes at this distance are equal
	least := c.prices.match(length, distance)
	for q := at - 1; q >= max(p, at-lastBytes) && length < maxMatch; q-- {
		length++
		least += c.prices.literal[data[q]]
		if equal == q+1 && distance <= q && data[q] == data[q-distance] {
			equal = q
			if all := c.prices.match(length, distance); all <= least {
				start, longer, back, least = q, length, distance, all
			}
		}
		d := c.five(data, q)
		if d <= 0 || d > min(q, Window) || d == distance {
			continue
		}
		if all := c.prices.match(length, d); all < least && equalBytes(data, q-d, q, length) {
			start, longer, back, least = q, length, d, all
		}
	}
	return c.periods(data, p, start, longer, back)
}

// periods makes a match of the next packet begin one byte before it, behind an equal byte: at the packets that lie one or more periods
// before the likely source, where the program repeats its calls.
func (c *Compressor) periods(data []byte, p, start, length, distance int) (from, longer, back int) {
	k, at := &c.walk, c.walk.at
	period := len(k.starts) - k.source
	if start != at || at == p || length == maxMatch || period == 1 || at-int(k.starts[k.source]) != distance {
		return start, length, distance
	}
	least := c.prices.match(length, distance) + c.prices.literal[data[at-1]]
	for i := k.source - period; i >= max(0, k.source-periods*period); i -= period {
		d := at - int(k.starts[i])
		if d > min(Window, at-1) {
			break
		}
		if data[at-1-d] == data[at-1] && c.prices.match(length+1, d) < least && equalBytes(data, at-d, at, length) {
			return at - 1, length + 1, d
		}
	}
	return start, length, distance
}

// source looks for an earlier packet that begins as the next one, of a size, does. It returns the number of equal
// bytes and the distance.
func (c *Compressor) source(data []byte, size int) (length, distance int) {
	k, at := &c.walk, c.walk.at
	last := len(k.starts) - 1
	if last < 0 {
		return 0, 0
	}
	limit := min(size, maxMatch, len(data)-at)
	k.source = min(k.source+1, last)
	if d := at - int(k.starts[k.source]); d <= Window {
		if n := common(data, at-d, at, limit); n > 1 {
			length, distance = n, d
		}
	}
	// The packet before is near, which takes fewer bits: it may have a byte less.
	if d := at - int(k.starts[last]); d != distance && d <= Window && (length < 9 || load(data, at-d+length-9) == load(data, at+length-9)) {
		if n := common(data, at-d, at, limit); n > 1 && n >= length-1 {
			length, distance = n, d
		}
	}
	if tail := size - length; tail <= k.tail+tailSlack {
		k.tail = tail
		near := 0
		for _, n := range k.edges {
			near = c.five(data, at+n)
		}
		if near > 0 && near < distance && data[at-near+length-1] == data[at+length-1] && common(data, at-near, at, limit) >= length {
			distance = near
			k.source, _ = slices.BinarySearch(k.starts, int32(at-near))
		}
		return length, distance
	}
	if n, d := c.search(data, limit); n > length {
		length, distance = n, d
		k.source, _ = slices.BinarySearch(k.starts, int32(at-d))
	}
	k.tail = min(size-length, k.tail+tailGrowth)
	return length, distance
}

// search goes from the packet before the next one to packets that are ever more like the next one: at the latest
// occurrence of the bytes in which the two differ lies a packet that is equal up to these bytes and beyond.
func (c *Compressor) search(data []byte, limit int) (length, distance int) {
	k, at := &c.walk, c.walk.at
	k.edges = k.edges[:0]
	for d := at - int(k.starts[len(k.starts)-1]); d > 0 && d <= min(at, Window) && len(k.edges) < sources; {
		n := common(data, at-d, at, limit)
		if n <= length && len(k.edges) > 0 {
			break
		}
		length, distance = n, d
		k.edges = append(k.edges, n)
		d = c.five(data, at+n)
	}
	return length, distance
}

// five enters the five bytes at p. It returns the distance to their latest place, 0 without one.
func (c *Compressor) five(data []byte, p int) int {
	if p+8 > len(data) {
		return 0
	}
	slot := &c.fives[hashFive(data, p)]
	d := p + bias - int(*slot)
	*slot = int32(p + bias)
	return d
}

// rest turns the bytes from p to end, at the end of a packet of a size, into tokens.
func (c *Compressor) rest(data []byte, p, end, size int) {
	for end-p > longRest {
		p = c.next(data[:end], p)
	}
	for p < end {
		unmatched, length, distance := c.short(data, p, end, size)
		for range unmatched {
			c.literal(data[p])
			p++
		}
		if length > 0 {
			c.match(length, distance)
			p += length
		}
	}
}

// short looks for a match from p up to end: in the packet before, which lies back by the size of this packet, and nearby.
// It returns the number of bytes before the match, and the match; the length is 0 if there is none.
func (c *Compressor) short(data []byte, p, end, size int) (unmatched, length, distance int) {
	limit := min(maxMatch, end-p)
	if limit < minMatch {
		return limit, 0, 0
	}
	if size > 0 && size <= min(p, Window) {
		length, distance = common(data, p-size, p, limit), size
	}
	if d := c.three(data, p); d > 0 {
		if n := common(data, p-d, p, limit); n > length && pays(n, d) {
			length, distance = n, d
		}
	}
	if !pays(length, distance) {
		return 1, 0, 0
	}
	return c.onward(data, p, end, length, distance)
}

// onward looks for a better match than the one at p. The bytes that differ at its end have occurred before, perhaps behind
// equal bytes: then a match from p on, or from the next bytes on, reaches across them.
func (c *Compressor) onward(data []byte, p, end, length, distance int) (unmatched, longer, back int) {
	edge := p + length
	if edge+minMatch > end {
		return 0, length, distance
	}
	d := c.three(data, edge)
	c.walk.edge, c.walk.edgeBack = edge, d
	if d <= 0 || d > p {
		return 0, length, distance
	}
	n := common(data, edge-d, edge, min(maxMatch-length, end-edge))
	if n < minMatch {
		return 0, length, distance
	}
	from := edge
	for from > p && data[from-1] == data[from-1-d] {
		from--
	}
	unmatched, longer = from-p, edge+n-from
	switch {
	case unmatched == 0:
		return 0, longer, d
	case unmatched > mostUnmatched || from == edge:
		return 0, length, distance
	}
	if c.prices.literals(data[p:from])+c.prices.match(longer, d) < c.prices.match(length, distance)+c.prices.literals(data[edge:edge+n]) {
		return unmatched, longer, d
	}
	return 0, length, distance
}

// three enters the three bytes at p. It returns the distance to their latest place before p, 0 without one.
func (c *Compressor) three(data []byte, p int) int {
	if p+4 > len(data) {
		return 0
	}
	if p == c.walk.edge { // they have been entered
		return c.walk.edgeBack
	}
	slot := &c.threes[hashThree(data, p)]
	d := p + bias - int(*slot)
	*slot = int32(p + bias)
	if d > min(p, Window) {
		return 0
	}
	return d
}
