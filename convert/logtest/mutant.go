package logtest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// A Mutant is a log that was made wrong, or at least other than it was.
type Mutant struct {
	How     string // the changes
	Log     []byte
	Damaged bool // the changes damage any log; other changes may leave a sound log
}

// Mutate returns a mutant of one of some logs. The same random numbers give the same mutant.
func Mutate(rnd *rand.Rand, logs [][]byte) Mutant {
	log := logs[rnd.IntN(len(logs))]
	m := Mutant{Log: bytes.Clone(log)}
	switch rnd.IntN(8) {
	case 0:
		m.How, m.Damaged = "a bit was flipped", true
		m.Log[rnd.IntN(len(log))] ^= 1 << rnd.IntN(8)
	case 1:
		m.How, m.Damaged = "it was cut", true
		m.Log = m.Log[:rnd.IntN(len(log))]
	case 2:
		m.How = "bits were flipped under right checksums"
		for range 1 + rnd.IntN(4) {
			m.Log[16+rnd.IntN(len(log)-16)] ^= 1 << rnd.IntN(8)
		}
		m.Log = Mended(m.Log)
	case 3:
		m.How = "its blocks were moved"
		list := blocksOf(log)
		for range 1 + rnd.IntN(3) {
			i, k := rnd.IntN(len(list)), rnd.IntN(len(list))
			list[i], list[k] = list[k], list[i]
		}
		m.Log = join(log, list, rnd.IntN(2) == 0)
	case 4:
		m.How = "it was spliced with another log"
		m.Log = splice(rnd, log, logs[rnd.IntN(len(logs))])
	default:
		m.How = "columns were changed under right checksums"
		m.Log = withColumns(rnd, log)
	}
	return m
}

// A block of a log, without its header.
type block struct {
	kind    byte
	seq     uint32
	payload []byte
}

// blocksOf returns the blocks of an intact log.
func blocksOf(log []byte) (list []block) {
	for at := 16; at+24 <= len(log) && log[at] == 0xCD; {
		n := int(le.Uint32(log[at+12:]))
		list = append(list, block{log[at+4], le.Uint32(log[at+8:]), log[at+24 : at+24+n]})
		at += 24 + n
	}
	return list
}

// join returns a log with these blocks, and the header and the trailer of a log. renumber gives the
// blocks new numbers, and the trailer the place of the last block.
func join(log []byte, list []block, renumber bool) []byte {
	out, last := bytes.Clone(log[:16]), 0
	for i, b := range list {
		if renumber {
			b.seq = uint32(i)
		}
		last = len(out)
		head := make([]byte, 24)
		copy(head, []byte{0xCD, 0x7A, 0xB1, 0x0C, b.kind})
		le.PutUint32(head[8:], b.seq)
		le.PutUint32(head[12:], uint32(len(b.payload)))
		le.PutUint32(head[16:], checksum(b.payload))
		le.PutUint32(head[20:], checksum(head[:20]))
		out = append(append(out, head...), b.payload...)
	}
	trailer := bytes.Clone(log[len(log)-24:])
	if renumber {
		le.PutUint64(trailer[8:], uint64(last))
		le.PutUint32(trailer[20:], checksum(trailer[:20]))
	}
	return append(out, trailer...)
}

// splice returns the blocks of one log with blocks of another one between them.
func splice(rnd *rand.Rand, log, other []byte) []byte {
	list, from := blocksOf(log), blocksOf(other)
	for range 1 + rnd.IntN(4) {
		b := from[rnd.IntN(len(from))]
		at := rnd.IntN(len(list))
		if rnd.IntN(2) == 0 {
			list[at] = b
		} else {
			list = slices.Insert(list, at, b)
		}
	}
	return join(log, list, rnd.IntN(4) > 0)
}

// A column of a table: FORMAT.md draws it.
type column struct {
	field, ref uint64
	encoding   byte
	data       []byte
}

func (c *column) refers() bool { return c.encoding&15 == 4 || c.encoding&0x30 == 0x30 }

// A cursor reads a payload.
type cursor struct{ b []byte }

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	c.b = c.b[max(n, 0):]
	return v
}

func (c *cursor) next(n uint64) []byte {
	n = min(n, uint64(len(c.b)))
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

// withColumns returns a log in which columns of a block are not as they were.
func withColumns(rnd *rand.Rand, log []byte) []byte {
	list := blocksOf(log)
	for range 1 + rnd.IntN(2) {
		b := &list[rnd.IntN(len(list))]
		in := cursor{b.payload}
		var out []byte
		for len(in.b) > 0 {
			table := otherTable(rnd, cursor{in.next(in.uvarint())})
			out = append(binary.AppendUvarint(out, uint64(len(table))), table...)
		}
		b.payload = out
	}
	return join(log, list, true)
}

// otherTable returns a table with one change.
func otherTable(rnd *rand.Rand, in cursor) []byte {
	number, rows, n := in.uvarint(), in.uvarint(), in.uvarint()
	var columns []column
	for range n {
		c := column{field: in.uvarint(), encoding: in.next(1)[0]}
		if c.refers() {
			c.ref = in.uvarint()
		}
		c.data = bytes.Clone(in.next(in.uvarint()))
		columns = append(columns, c)
	}
	if len(columns) > 0 {
		columns = otherColumn(rnd, columns)
	}
	switch rnd.IntN(10) {
	case 0:
		number = uint64(rnd.IntN(135))
	case 1:
		rows = []uint64{0, 1, rows - 1, rows + 1, 65536, 1 << 40}[rnd.IntN(6)]
	}
	out := binary.AppendUvarint(nil, number)
	out = binary.AppendUvarint(out, rows)
	out = binary.AppendUvarint(out, uint64(len(columns)))
	for _, c := range columns {
		out = append(binary.AppendUvarint(out, c.field), c.encoding)
		if c.refers() {
			out = binary.AppendUvarint(out, c.ref)
		}
		out = append(binary.AppendUvarint(out, uint64(len(c.data))), c.data...)
	}
	return out
}

// otherColumn changes one of some columns.
func otherColumn(rnd *rand.Rand, columns []column) []column {
	i, k := rnd.IntN(len(columns)), rnd.IntN(len(columns))
	c := &columns[i]
	switch rnd.IntN(9) {
	case 0:
		c.encoding ^= 1 << rnd.IntN(8)
	case 1:
		c.field = uint64(rnd.IntN(70))
	case 2:
		c.ref, c.encoding = uint64(rnd.IntN(len(columns)+1)), c.encoding&0x80|4
	case 3:
		c.data = c.data[:rnd.IntN(len(c.data)+1)]
	case 4:
		c.data = append(c.data, byte(rnd.Uint32()))
	case 5:
		c.data, columns[k].data = columns[k].data, c.data
		c.encoding, columns[k].encoding = columns[k].encoding, c.encoding
		c.ref, columns[k].ref = columns[k].ref, c.ref
	case 6:
		c.encoding, c.data = 0, binary.AppendUvarint(nil, rnd.Uint64()>>rnd.IntN(64))
	case 7:
		return slices.Delete(columns, i, i+1)
	default:
		for range 1 + rnd.IntN(3) {
			if len(c.data) > 0 {
				c.data[rnd.IntN(len(c.data))] = byte(rnd.Uint32())
			}
		}
	}
	return columns
}
