package parquet

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Sizes of DELTA_BINARY_PACKED: values of a block, and of each of its miniblocks, which have a bit width of their own.
const (
	blockValues = 128
	miniBlocks  = 4
	miniValues  = blockValues / miniBlocks
)

// appendDelta appends numbers in DELTA_BINARY_PACKED.
func appendDelta[N number](b []byte, v []N) []byte {
	b = binary.AppendUvarint(b, blockValues)
	b = binary.AppendUvarint(b, miniBlocks)
	b = binary.AppendUvarint(b, uint64(len(v)))
	if len(v) == 0 {
		return append(b, 0)
	}
	last := int64(v[0])
	b = binary.AppendVarint(b, last)
	var deltas [blockValues]uint64
	for rest := v[1:]; len(rest) > 0; {
		n := min(len(rest), blockValues)
		least := int64(rest[0]) - last
		for i, x := range rest[:n] {
			d := int64(x) - last // wraps, and so does the reader's sum
			deltas[i], last, least = uint64(d), int64(x), min(least, d)
		}
		b = appendBlock(b, deltas[:n], least)
		rest = rest[n:]
	}
	return b
}

// appendBlock appends a block of differences. A miniblock without values has the width 0 and no bytes.
func appendBlock(b []byte, deltas []uint64, least int64) []byte {
	b = binary.AppendVarint(b, least)
	widths := len(b)
	b = append(b, make([]byte, miniBlocks)...)
	for m := 0; len(deltas) > 0; m++ {
		mini := deltas[:min(miniValues, len(deltas))]
		var all uint64
		for i, d := range mini {
			d -= uint64(least)
			mini[i] = d
			all |= d
		}
		width := bits.Len64(all)
		b[widths+m] = byte(width)
		b = appendBits(b, mini, width, miniValues)
		deltas = deltas[len(mini):]
	}
	return b
}

// appendBits appends numbers of a width in bits, the lowest bit first, and zeros up to a number of values that is
// a multiple of 8.
func appendBits[N uint32 | uint64](b []byte, v []N, width, padded int) []byte {
	end := len(b) + padded*width/8
	if width <= mostGrouped {
		b, v = appendGroups(b, v, width)
	}
	var held uint64 // bits that are no whole word yet
	used := 0
	for _, x := range v {
		held |= uint64(x) << used
		if used += width; used >= 64 {
			b = binary.LittleEndian.AppendUint64(b, held)
			used -= 64
			held = uint64(x) >> (width - used)
		}
	}
	for ; used > 0; used -= 8 {
		b = append(b, byte(held))
		held >>= 8
	}
	for len(b) < end {
		b = append(b, 0)
	}
	return b
}

// mostGrouped is the largest width of which 4 numbers are in one word.
const mostGrouped = 16

// appendGroups appends the bits of whole groups of 8 numbers, and returns the numbers that are left.
func appendGroups[N uint32 | uint64](b []byte, v []N, width int) ([]byte, []N) {
	b = slices.Grow(b, len(v)/8*width+16)
	w := uint(width)
	for ; len(v) >= 8; v = v[8:] {
		g := v[:8:8]
		low := uint64(g[0]) | uint64(g[1])<<w | uint64(g[2])<<(2*w) | uint64(g[3])<<(3*w)
		high := uint64(g[4]) | uint64(g[5])<<w | uint64(g[6])<<(2*w) | uint64(g[7])<<(3*w)
		to := b[len(b) : len(b)+16]
		binary.LittleEndian.PutUint64(to, low|high<<(4*w))
		binary.LittleEndian.PutUint64(to[8:], high>>(64-4*w))
		b = b[:len(b)+width]
	}
	return b, v
}

// leastRun is the least number of equal values that are worth a run, a multiple of 8.
const leastRun = 16

// appendRuns appends numbers of a width in bits in Parquet's hybrid of runs and bit-packed groups of 8. A run begins
// with a group.
func appendRuns(b []byte, v []uint32, width int) []byte {
	from := 0 // of the values that wait to be packed
	for i := 0; i+8 <= len(v); {
		n := 0
		if x, g := v[i], v[i:i+8:i+8]; g[1] == x && g[2] == x && g[3] == x && g[4] == x && g[5] == x && g[6] == x &&
			g[7] == x {
			for n = 8; i+n < len(v) && v[i+n] == x; n++ {
			}
		}
		if n < leastRun {
			i += 8
			continue
		}
		b = appendPacked(b, v[from:i], width)
		b = appendRun(b, v[i], n, width)
		i += n
		from = i
	}
	return appendPacked(b, v[from:], width)
}

// appendRun appends a run of equal numbers.
func appendRun(b []byte, v uint32, n, width int) []byte {
	b = binary.AppendUvarint(b, uint64(n)<<1)
	for w := 0; w < width; w += 8 {
		b = append(b, byte(v>>w))
	}
	return b
}

// appendPacked appends bit-packed groups of 8.
func appendPacked(b []byte, v []uint32, width int) []byte {
	if len(v) == 0 {
		return b
	}
	groups := (len(v) + 7) / 8
	b = binary.AppendUvarint(b, uint64(groups)<<1|1)
	return appendBits(b, v, width, groups*8)
}

// appendLevels appends the definition levels of a page, with their length in front, that write appends: 1 for a value,
// 0 for null.
func appendLevels(b []byte, write func([]byte) []byte) []byte {
	at := len(b)
	b = write(append(b, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func appendPlainText(b []byte, text string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	return append(b, text...)
}
