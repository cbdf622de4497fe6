package parquetsink

import (
	"slices"

	"github.com/cudatrace/cudatrace/parquet"
)

// order returns the order of the rows by time, nil if they are in it.
func (b *buffer) order() []uint32 {
	by := slices.IndexFunc(b.table.Columns, func(c Column) bool { return c.Name == sorted })
	if by < 0 {
		return nil
	}
	moments := appendTo(&b.columns[by].wide, b.rows, nil, nil, itself)
	if slices.IsSorted(moments) {
		return nil
	}
	return sortedBy(moments)
}

func itself[V any](v V) V { return v }

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
	case t.Type == parquet.Float:
		s.floats = appendTo(&c.floats, b.rows, order, s.floats[:0], itself)
		return parquet.Values{Floats: s.floats}
	case t.Type == parquet.Text:
		v := parquet.Values{Texts: b.texts}
		s.index, v.Repeated = gather(&c.small, b.rows, order, s.index, itself)
		v.Index = s.index
		return v
	}
	var v parquet.Values
	switch {
	case !t.small:
		s.ints, v.Repeated = gather(&c.wide, b.rows, order, s.ints, itself)
	case t.Null != "":
		s.ints, v.Repeated = gather(&c.small, b.rows, order, s.ints, orNull)
	default:
		s.ints, v.Repeated = gather(&c.small, b.rows, order, s.ints, func(x uint32) int64 { return int64(x) })
	}
	v.Ints = s.ints
	return v
}

// orNull is a small number as its column has it.
func orNull(x uint32) int64 {
	if x == null {
		return parquet.NullInt
	}
	return int64(x)
}

// gather returns the values of a list in an order; or one value, and of how many rows it is the value.
func gather[V comparable, T any](l *list[V], rows int, order []uint32, to []T, as func(V) T) (values []T, repeated int) {
	if same(l, rows) {
		return append(to[:0], as(l.blocks[0][0])), rows
	}
	return appendTo(l, rows, order, to[:0], as), 0
}
