package parquetsink

import (
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/parquet"
)

// null is no value among small numbers and texts.
const null = math.MaxUint32

// A buffer holds rows of a table until they are a row group. Each text is held once.
type buffer struct {
	table   *Table
	columns []column
	rows    int
	next    int // column of the next value
	bytes   int // that the rows and texts take

	texts []string
	ids   map[string]uint32
}

// A column holds values: in the list for its type.
type column struct {
	wide   []int64
	small  []uint32 // small numbers, and indexes of texts
	floats []float64
}

func newBuffer(t *Table) *buffer {
	return &buffer{table: t, columns: make([]column, len(t.Columns)), ids: make(map[string]uint32)}
}

// rowBytes is the size of a row.
func (t *Table) rowBytes() (n int) {
	for i := range t.Columns {
		n += 8
		if c := &t.Columns[i]; c.small || c.Type == parquet.Text {
			n -= 4
		}
	}
	return n
}

func (b *buffer) int(v int64) {
	c := &b.columns[b.next]
	c.wide = push(c.wide, v)
	b.next++
}

// push appends to a list whose room doubles: lists grow to a row group's size, and stay.
func push[V any](list []V, v V) []V {
	if len(list) == cap(list) {
		list = slices.Grow(list, max(len(list), 64))
	}
	return append(list, v)
}

// uint adds a number of 64 bits. SQL has no larger one than the largest int64.
func (b *buffer) uint(v uint64) { b.int(int64(min(v, math.MaxInt64))) }

// small adds a small number. The largest one is taken for null.
func (b *buffer) small(v uint32) {
	c := &b.columns[b.next]
	c.small = push(c.small, v)
	b.next++
}

// known adds a small number that is null where it is 0.
func (b *buffer) known(v uint32) {
	if v == 0 {
		v = null
	}
	b.small(v)
}

// knownWide adds a number that is null where it is 0.
func (b *buffer) knownWide(v uint64) {
	if v == 0 {
		b.int(parquet.NullInt)
		return
	}
	b.uint(v)
}

func (b *buffer) flag(v bool) {
	if v {
		b.int(1)
	} else {
		b.int(0)
	}
}

func (b *buffer) float(v float64) {
	c := &b.columns[b.next]
	c.floats = push(c.floats, v)
	b.next++
}

// text adds a text. An empty text is null in a column that has nulls.
func (b *buffer) text(s string) {
	if s == "" && b.table.Columns[b.next].Null != "" {
		b.small(null)
		return
	}
	b.small(b.id(s))
}

// id returns the number of a text, for small.
func (b *buffer) id(s string) uint32 {
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

// end ends a row. It says whether all columns have a value.
func (b *buffer) end() bool {
	whole := b.next == len(b.columns)
	b.rows, b.next = b.rows+1, 0
	return whole
}

// size is what the buffer takes of the budget.
func (b *buffer) size() int { return b.bytes + b.rows*b.table.rowBytes() }

// clear forgets the rows.
func (b *buffer) clear() {
	for i := range b.columns {
		c := &b.columns[i]
		c.wide, c.small, c.floats = c.wide[:0], c.small[:0], c.floats[:0]
	}
	b.rows, b.bytes, b.texts = 0, 0, nil
	clear(b.ids)
}

// order returns the order of the rows by time, nil if they are in it.
func (b *buffer) order() []uint32 {
	by := slices.IndexFunc(b.table.Columns, func(c Column) bool { return c.Name == sorted })
	if by < 0 || slices.IsSorted(b.columns[by].wide) {
		return nil
	}
	return sortedBy(b.columns[by].wide)
}

// digit is the number of bits by which sortedBy sorts at a time.
const digit = 11

// sortedBy returns the indexes of numbers in the order of the numbers, equal ones in their own order.
func sortedBy(v []int64) []uint32 {
	least, most := slices.Min(v), slices.Max(v)
	order, next := make([]uint32, len(v)), make([]uint32, len(v))
	for i := range order {
		order[i] = uint32(i)
	}
	for shift := 0; shift < 64 && uint64(most-least)>>shift > 0; shift += digit {
		var from [1 << digit]uint32
		for _, x := range v {
			from[uint64(x-least)>>shift&(1<<digit-1)]++
		}
		at := uint32(0)
		for i, n := range from {
			from[i] = at
			at += n
		}
		for _, i := range order {
			k := &from[uint64(v[i]-least)>>shift&(1<<digit-1)]
			next[*k] = i
			*k++
		}
		order, next = next, order
	}
	return order
}

// A scratch is the memory of a worker for the values of a column.
type scratch struct {
	ints   []int64
	index  []uint32
	floats []float64
}

// values returns the values of a column in an order, nil for their own.
func (b *buffer) values(i int, order []uint32, s *scratch) parquet.Values {
	c, t := &b.columns[i], &b.table.Columns[i]
	switch {
	case t.Type == parquet.Text:
		s.index = inOrder(c.small, order, s.index)
		return parquet.Values{Index: s.index, Texts: b.texts}
	case t.Type == parquet.Float:
		s.floats = inOrder(c.floats, order, s.floats)
		return parquet.Values{Floats: s.floats}
	case !t.small:
		s.ints = inOrder(c.wide, order, s.ints)
		return parquet.Values{Ints: s.ints}
	}
	s.index = inOrder(c.small, order, s.index)
	s.ints = s.ints[:0]
	for _, x := range s.index {
		v := int64(x)
		if x == null && t.Null != "" {
			v = parquet.NullInt
		}
		s.ints = append(s.ints, v)
	}
	return parquet.Values{Ints: s.ints}
}

// inOrder returns values in an order.
func inOrder[V any](v []V, order []uint32, to []V) []V {
	if order == nil {
		return append(to[:0], v...)
	}
	to = to[:0]
	for _, i := range order {
		to = append(to, v[i])
	}
	return to
}
