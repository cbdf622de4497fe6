package parquetsink

import (
	"math"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/parquet"
)

// null is no value among small numbers and texts.
const null = math.MaxUint32

// A buffer holds rows of a table until they are a row group. Each text is held once.
//
// Rows are added in pieces: begin says of how many rows, then each column gets its values in the order of the table, and
// end ends the piece. Without begin a piece is one row.
type buffer struct {
	table   *Table
	memory  *memory
	columns []column
	rows    int
	piece   int // rows that are being added
	next    int // column of the next values
	bytes   int // that the texts take
	log     string

	order []uint32     // of the rows, by time; nil if they are in it. Set by sort
	freed atomic.Int32 // columns

	texts  []string
	ids    map[string]uint32
	recent [64]numbered
}

// A numbered is a text and its number.
type numbered struct {
	text string
	id   uint32
}

// A column holds values: in the list for its type.
type column struct {
	wide   list[int64]
	small  list[uint32] // small numbers, and indexes of texts
	floats list[float64]
}

func newBuffer(t *Table, m *memory) *buffer {
	return &buffer{table: t, memory: m, columns: make([]column, len(t.Columns)), piece: 1, ids: make(map[string]uint32)}
}

// begin begins a piece of at most as many rows, and returns their number.
func (b *buffer) begin(rows int) int {
	b.piece = min(rows, blockRows-b.rows%blockRows)
	return b.piece
}

// ints returns the room for the piece's values of a column of numbers or flags.
func (b *buffer) ints() []int64 {
	b.next++
	return b.columns[b.next-1].wide.room(b.rows, b.piece, &b.memory.wide)
}

// smalls is ints for a column of small numbers or texts.
func (b *buffer) smalls() []uint32 {
	b.next++
	return b.columns[b.next-1].small.room(b.rows, b.piece, &b.memory.small)
}

// int adds a number, for all rows of the piece.
func (b *buffer) int(v int64) { fill(b.ints(), v) }

// uint adds a number of 64 bits.
func (b *buffer) uint(v uint64) { b.int(bounded(v)) }

// bounded is a number of 64 bits in SQL, which has no larger one than the largest int64.
func bounded(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

// small adds a small number. The largest one is taken for null.
func (b *buffer) small(v uint32) { fill(b.smalls(), v) }

func fill[V any](list []V, v V) {
	for i := range list {
		list[i] = v
	}
}

// known adds a small number that is null where it is 0.
func (b *buffer) known(v uint32) { b.small(known(v)) }

func known(v uint32) uint32 {
	if v == 0 {
		return null
	}
	return v
}

// knownWide adds a number that is null where it is 0.
func (b *buffer) knownWide(v uint64) {
	if v == 0 {
		b.int(parquet.NullInt)
		return
	}
	b.uint(v)
}

func (b *buffer) flag(v bool) { b.int(number(v)) }

// number is a flag as a column has it.
func number(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

func (b *buffer) float(v float64) {
	fill(b.floats(), v)
}

// floats returns the room for the piece's values of a column of fractions.
func (b *buffer) floats() []float64 {
	b.next++
	return b.columns[b.next-1].floats.room(b.rows, b.piece, &b.memory.floats)
}

// text adds a text. An empty text is null in a column that has nulls.
func (b *buffer) text(s string) {
	if b.table.Columns[b.next].Null != "" {
		b.small(b.idOrNull(s))
		return
	}
	b.small(b.id(s))
}

// idOrNull is the number of a text, null of an empty one.
func (b *buffer) idOrNull(s string) uint32 {
	if s == "" {
		return null
	}
	return b.id(s)
}

// id returns the number of a text.
func (b *buffer) id(s string) uint32 {
	if s == "" {
		return b.newID(s)
	}
	r := &b.recent[(len(s)+int(s[len(s)-1])+int(s[len(s)/2])<<2)%len(b.recent)]
	if r.text != s {
		*r = numbered{s, b.newID(s)}
	}
	return r.id
}

func (b *buffer) newID(s string) uint32 {
	id, ok := b.ids[s]
	if !ok {
		id = uint32(len(b.texts))
		b.ids[s], b.texts = id, append(b.texts, s)
		b.bytes += len(s) + textBytes
	}
	return id
}

// textBytes is what a text takes beside its characters.
const textBytes = 64

// end ends a piece, with the log in the last column. It reports whether all columns have their values.
func (b *buffer) end() bool {
	if b.next == len(b.columns)-1 {
		b.text(b.log)
	}
	whole := b.next == len(b.columns)
	b.rows, b.next, b.piece = b.rows+b.piece, 0, 1
	return whole
}

// size is what the buffer takes of the budget.
func (b *buffer) size() int {
	n := b.bytes
	for i := range b.columns {
		n += b.columns[i].size()
	}
	return n
}

func (c *column) size() int { return 8*c.wide.held + 4*c.small.held + 8*c.floats.held }

// clear forgets the values.
func (c *column) clear(m *memory) {
	c.wide.clear(&m.wide)
	c.small.clear(&m.small)
	c.floats.clear(&m.floats)
}

// free gives back the memory of a column, and, once, that of the texts; with the last column that of the order.
func (b *buffer) free(column int) {
	c := &b.columns[column]
	bytes := c.size()
	if column == 0 {
		bytes += b.bytes
	}
	c.clear(b.memory)
	b.memory.left(bytes)
	if int(b.freed.Add(1)) == len(b.columns) && b.order != nil {
		b.memory.orders.put(b.order)
		b.order = nil
	}
}
