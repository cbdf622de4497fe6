package columns

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// The encoding byte of a column: how its numbers are represented, what they are
// relative to, and whether the beginning of its data is compressed.
const (
	reprConst  = 0 // one number for all rows
	reprVarint = 1 // a varint a row
	reprDict   = 2 // a list, and a byte a row that picks from it
	reprSplit  = 3 // a symbol a row, then the low bits of all rows
	reprLookup = 4 // a list, from which the bytes of another column pick
	reprText   = 5 // a length a row, then the bytes of all rows
	reprMask   = 0x0F

	relNone   = 0 << 4 // the values themselves
	relDelta  = 1 << 4 // difference to the value of the previous row
	relDelta2 = 2 << 4 // difference to the change of the previous row
	relGap    = 3 << 4 // difference to the value plus the duration of the previous row
	relMedian = 4 << 4 // with one of the others but delta2: difference of that to its median over the last five rows
	relMask   = 0x70

	packed = 0x80 // the data begins with a zstd frame
)

const (
	maxDict     = 256
	sampleRows  = 512 // rows from which the best relation is estimated
	smallColumn = 16  // below that many rows varints are as good as anything
)

// relate fills dst with vals in the given relation. dur has the durations of the rows, for
// relGap.
func relate(dst, vals, dur []uint64, rel byte) {
	var last, change uint64
	dst = dst[:len(vals)]
	switch rel {
	case relNone, relMedian:
		copy(dst, vals)
	case relDelta:
		for i, v := range vals {
			dst[i] = Zigzag(int64(v - last))
			last = v
		}
	case relDelta2:
		for i, v := range vals {
			dst[i] = Zigzag(int64(v - last - change))
			last, change = v, v-last
		}
	case relGap:
		for i, v := range vals {
			dst[i] = Zigzag(int64(v - last))
			last = v + dur[i]
		}
	case relDelta | relMedian:
		for i, v := range vals {
			dst[i] = v - last
			last = v
		}
	case relGap | relMedian:
		for i, v := range vals {
			dst[i] = v - last
			last = v + dur[i]
		}
	}
	if rel&relMedian != 0 {
		subtractMedians(dst)
	}
}

// unrelate is the inverse of relate, in place.
func unrelate(vals []uint64, dur Column, rel byte) {
	var last, change uint64
	if rel&relMedian != 0 {
		addMedians(vals)
	}
	switch rel {
	case relDelta:
		for i, v := range vals {
			last += uint64(Unzigzag(v))
			vals[i] = last
		}
	case relDelta2:
		for i, v := range vals {
			change += uint64(Unzigzag(v))
			last += change
			vals[i] = last
		}
	case relGap:
		for i, v := range vals {
			last += uint64(Unzigzag(v))
			vals[i] = last
			last += dur.Numbers[i&dur.Mask]
		}
	case relDelta | relMedian:
		for i, v := range vals {
			last += v
			vals[i] = last
		}
	case relGap | relMedian:
		for i, v := range vals {
			last += v
			vals[i] = last
			last += dur.Numbers[i&dur.Mask]
		}
	}
}

// subtractMedians makes each number its zigzag difference to the median of the five before it.
func subtractMedians(vals []uint64) {
	var last, before int64
	var a, b, c pair // the pairs of neighbours in front of last
	for i, v := range vals {
		x := int64(v)
		vals[i] = Zigzag(x - median(last, a, c))
		a, b, c = pairOf(last, before), a, b
		last, before = x, last
	}
}

// addMedians is the inverse of subtractMedians.
func addMedians(vals []uint64) {
	var last, before int64
	var a, b, c pair
	for i, v := range vals {
		x := Unzigzag(v) + median(last, a, c)
		vals[i] = uint64(x)
		a, b, c = pairOf(last, before), a, b
		last, before = x, last
	}
}

// A pair is two numbers in order.
type pair struct{ low, high int64 }

func pairOf(x, y int64) pair { return pair{min(x, y), max(x, y)} }

// median is the median of a number and two pairs.
func median(x int64, p, q pair) int64 {
	y, z := max(p.low, q.low), min(p.high, q.high) // of the four, those in the middle
	return max(min(y, z), min(max(y, z), x))
}

// Relations that an encoder tries. Medians suit what a clock measures.
var (
	timeRelations  = []byte{relNone, relDelta, relDelta2, relMedian, relDelta | relMedian, relGap, relGap | relMedian}
	otherRelations = []byte{relNone, relDelta, relDelta2}
)

// bestRelation picks the relation of times or durations that leaves the fewest significant
// bits. The gap is tried only with durations.
func bestRelation(scratch, vals, dur []uint64) byte {
	n := min(len(vals), sampleRows)
	best, fewest := byte(relNone), -1
	for _, rel := range timeRelations {
		if rel&relGap == relGap && dur == nil {
			break
		}
		relate(scratch[:n], vals[:n], dur, rel)
		sum := 0
		for _, v := range scratch[:n] {
			sum += bits.Len64(v)
		}
		if fewest < 0 || sum < fewest {
			best, fewest = rel, sum
		}
	}
	return best
}

// A dictionary collects the distinct numbers of a column, up to 256, in the
// order in which they first appear.
type dictionary struct {
	values []uint64
	index  []byte // a byte for each row
	slots  [1024]uint16
}

// build fills the dictionary and reports whether it is worth its room.
func (d *dictionary) build(vals []uint64) bool {
	d.values = d.values[:0]
	d.index = slices.Grow(d.index[:0], len(vals))[:len(vals)]
	clear(d.slots[:])
	var last uint64
	var pick byte // of last
	for i, v := range vals {
		if i == 0 || v != last {
			n, ok := d.pick(v)
			if !ok {
				return false
			}
			last, pick = v, n
		}
		d.index[i] = pick
	}
	return 2*len(d.values) <= len(vals)
}

// pick returns the place of a number in the dictionary, and adds a new one while there is room.
func (d *dictionary) pick(v uint64) (byte, bool) {
	slot := v * 0x9E3779B97F4A7C15 >> 54
	for d.slots[slot] != 0 && d.values[d.slots[slot]-1] != v {
		slot = (slot + 1) % uint64(len(d.slots))
	}
	if d.slots[slot] == 0 {
		if len(d.values) == maxDict {
			return 0, false
		}
		d.values = append(d.values, v)
		d.slots[slot] = uint16(len(d.values))
	}
	return byte(d.slots[slot] - 1), true
}

// appendList appends the numbers that a dictionary or a lookup picks from.
func appendList(dst []byte, values []uint64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	var last uint64
	for _, v := range values {
		dst = binary.AppendUvarint(dst, Zigzag(int64(v-last)))
		last = v
	}
	return dst
}

// parseList is the inverse of appendList. b must end with the list.
func parseList(list *[maxDict]uint64, b []byte) (int, bool) {
	k, n := binary.Uvarint(b)
	if n <= 0 || k > maxDict {
		return 0, false
	}
	rest, ok := uvarints(list[:k], b[n:])
	unrelate(list[:k], Column{}, relDelta)
	return int(k), ok && len(rest) == 0
}

// lookup reports whether rows with the same byte in index always have the same number, and
// gives the number for each of the k bytes.
func lookup(list *[maxDict]uint64, vals []uint64, index []byte, k int) bool {
	var seen [maxDict]bool
	for i, v := range vals {
		x := index[i]
		if !seen[x] {
			seen[x], list[x] = true, v
		} else if list[x] != v {
			return false
		}
	}
	clear(list[k:])
	return true
}
