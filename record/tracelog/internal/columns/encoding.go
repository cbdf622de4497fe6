package columns

import (
	"encoding/binary"
	"math/bits"
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
	relMask   = 0x30

	packed = 0x80 // the data begins with a zstd frame
)

const (
	maxDict     = 256
	sampleRows  = 1024 // rows from which the best relation is estimated
	smallColumn = 16   // below that many rows varints are as good as anything
)

// relate fills dst with vals in the given relation. dur has the durations of the rows, for
// relGap.
func relate(dst, vals, dur []uint64, rel byte) {
	var last, change, end uint64
	for i, v := range vals {
		switch rel {
		case relNone:
			dst[i] = v
			continue
		case relDelta:
			dst[i] = Zigzag(int64(v - last))
		case relDelta2:
			dst[i] = Zigzag(int64(v - last - change))
			change = v - last
		case relGap:
			dst[i] = Zigzag(int64(v - end))
			end = v + dur[i]
		}
		last = v
	}
}

// unrelate is the inverse of relate, in place.
func unrelate(vals []uint64, dur Column, rel byte) {
	var last, change uint64
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
		if len(dur.Numbers) == 0 {
			dur = Column{Numbers: zeros}
		}
		for i, v := range vals {
			last += uint64(Unzigzag(v))
			vals[i] = last
			last += dur.Numbers[i&dur.Mask]
		}
	}
}

// bestRelation picks the relation that leaves the fewest significant bits. The
// gap is tried only with durations.
func bestRelation(scratch, vals, dur []uint64) byte {
	n := min(len(vals), sampleRows)
	best, fewest := byte(relNone), -1
	for rel := byte(relNone); rel <= relGap; rel += relDelta {
		if rel == relGap && dur == nil {
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
	d.values, d.index = d.values[:0], d.index[:0]
	clear(d.slots[:])
	for _, v := range vals {
		slot := v * 0x9E3779B97F4A7C15 >> 54
		for d.slots[slot] != 0 && d.values[d.slots[slot]-1] != v {
			slot = (slot + 1) % uint64(len(d.slots))
		}
		if d.slots[slot] == 0 {
			if len(d.values) == maxDict {
				return false
			}
			d.values = append(d.values, v)
			d.slots[slot] = uint16(len(d.values))
		}
		d.index = append(d.index, byte(d.slots[slot]-1))
	}
	return 2*len(d.values) <= len(vals)
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
