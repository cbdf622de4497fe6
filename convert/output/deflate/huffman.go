package deflate

import (
	"math/bits"
	"slices"
)

// A code is a prefix code of up to 286 symbols.
type code struct {
	lengths []uint8  // of the symbols, bits; 0 for a symbol that does not occur
	words   []uint16 // with the first bit lowest, as DEFLATE wants it
	order   []leaf
	nodes   []uint32
}

// A leaf is the number of times that a symbol occurs, above the symbol's 16 bits: leaves are in order as numbers.
type leaf uint64

func newLeaf(count uint32, symbol int) leaf { return leaf(count)<<16 | leaf(symbol) }

func (l leaf) count() uint32  { return uint32(l >> 16) }
func (l leaf) symbol() uint16 { return uint16(l) }

// make fits the code to the frequencies of symbols, with no word longer than limit.
func (c *code) make(counts []uint32, limit int) {
	c.lengths, c.words, c.order = resize(c.lengths, len(counts)), resize(c.words, len(counts)), c.order[:0]
	for s, n := range counts {
		if n > 0 {
			c.order = append(c.order, newLeaf(n, s))
		}
	}
	for s := range counts { // every code gets at least two words: not all readers accept fewer
		if len(c.order) >= 2 {
			break
		}
		if len(c.order) == 0 || int(c.order[0].symbol()) != s {
			c.order = append(c.order, newLeaf(1, s))
		}
	}
	slices.Sort(c.order)
	var ofLength [maxWord + 1]int
	c.measure(limit, &ofLength)
	c.assign(limit, &ofLength)
}

func resize[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// measure computes the number of words of each length: by Huffman's algorithm, and where words
// would be too long, the nearest numbers that fit.
func (c *code) measure(limit int, ofLength *[maxWord + 1]int) {
	n := len(c.order)
	depth := c.depths()
	excess := 0 // the words exceed the room by this, of 1 << limit
	for _, d := range depth[:n] {
		d = min(d, uint32(limit))
		ofLength[d]++
		excess += 1 << (limit - int(d))
	}
	for excess -= 1 << limit; excess > 0; excess-- { // a longer word for one symbol makes room for another
		d := limit - 1
		for ofLength[d] == 0 {
			d--
		}
		ofLength[d]--
		ofLength[d+1] += 2
		ofLength[limit]--
	}
}

// depths returns the depths of the leaves in Huffman's tree, in the order of the leaves.
func (c *code) depths() []uint32 {
	n := len(c.order)
	c.nodes = resize(c.nodes, 4*n)
	weight, parent := c.nodes[:2*n], c.nodes[2*n:]
	for i, l := range c.order {
		weight[i] = l.count()
	}
	leaf, inner := 0, n // the next leaf and the next inner node without a parent
	for next := n; next < 2*n-1; next++ {
		for range 2 {
			from := &inner
			if leaf < n && (inner >= next || weight[leaf] <= weight[inner]) {
				from = &leaf
			}
			weight[next] += weight[*from]
			parent[*from] = uint32(next)
			*from++
		}
	}
	depth := weight
	depth[2*n-2] = 0
	for i := 2*n - 3; i >= 0; i-- {
		depth[i] = depth[parent[i]] + 1
	}
	return depth
}

// assign gives the long words to rare symbols, and makes the words (RFC 1951, 3.2.2).
func (c *code) assign(limit int, ofLength *[maxWord + 1]int) {
	at := 0
	for d := limit; d > 0; d-- {
		for range ofLength[d] {
			c.lengths[c.order[at].symbol()] = uint8(d)
			at++
		}
	}
	var next [maxWord + 2]uint16
	for d := 1; d <= limit; d++ {
		next[d+1] = (next[d] + uint16(ofLength[d])) << 1
	}
	for s, d := range c.lengths {
		if d > 0 {
			c.words[s] = bits.Reverse16(next[d]) >> (16 - d)
			next[d]++
		}
	}
}

// cost is the number of bits for symbols with these frequencies.
func (c *code) cost(counts []uint32) (n int) {
	for s, k := range counts {
		n += int(k) * int(c.lengths[s])
	}
	return n
}
