package parquetsink

import (
	"reflect"
	"slices"
	"sort"

	"github.com/cudatrace/cudatrace/parquet"
)

// sort finds the order of the rows by time.
func (b *buffer) sort(s *scratch) {
	by := slices.IndexFunc(b.table.Columns, func(c Column) bool { return c.Name == sorted })
	if by < 0 {
		return
	}
	s.ints = appendTo(&b.columns[by].wide, b.rows, nil, s.ints[:0])
	if !slices.IsSorted(s.ints) {
		b.order = sortedBy(s.ints, b.memory.orders.reuse(), &s.small)
	}
}

// sortedBy returns the indexes of numbers in the order of the numbers, equal ones in their own order. Rows come in long
// runs that rise, each of a thread or a stream for a while, so it merges the runs. It uses the memory of the order and
// of spare.
func sortedBy(v []int64, order []uint32, spare *[]uint32) []uint32 {
	order = slices.Grow(order[:0], len(v))[:len(v)]
	var ends []int // of runs
	for i := range v {
		order[i] = uint32(i)
		if i+1 == len(v) || v[i+1] < v[i] {
			ends = append(ends, i+1)
		}
	}
	for len(ends) > 1 {
		merged, from := ends[:0], 0
		for i := 1; i < len(ends); i += 2 {
			mid, end := ends[i-1], ends[i]
			mergeRuns(v, order[from:end], mid-from, spare)
			merged, from = append(merged, end), end
		}
		if from < len(v) {
			merged = append(merged, len(v))
		}
		ends = merged
	}
	return order
}

// mergeRuns merges two runs of indexes, the second of which begins at mid. It moves those alone that are not in their
// place.
func mergeRuns(v []int64, order []uint32, mid int, spare *[]uint32) {
	least, most := v[order[mid]], v[order[mid-1]]
	from := sort.Search(mid, func(i int) bool { return v[order[i]] > least })
	to := mid + sort.Search(len(order)-mid, func(i int) bool { return v[order[mid+i]] >= most })
	*spare = append((*spare)[:0], order[from:mid]...)
	left, right, at := *spare, order[mid:to], from
	for len(left) > 0 && len(right) > 0 {
		if v[right[0]] < v[left[0]] {
			order[at], right = right[0], right[1:]
		} else {
			order[at], left = left[0], left[1:]
		}
		at++
	}
	copy(order[at:], left)
}

// A scratch is the memory of a worker for the values of a column.
type scratch struct {
	ints   []int64
	small  []uint32
	floats []float64
}

// values returns the values of a column in the order of the rows.
func (b *buffer) values(i int, s *scratch) parquet.Values {
	c, t := &b.columns[i], &b.table.Columns[i]
	var v parquet.Values
	switch {
	case t.Type == parquet.Float:
		v.Repeated = gather(&c.floats, b.rows, b.order, &s.floats)
		v.Floats = s.floats
	case t.Type == parquet.Text:
		v.Repeated = gather(&c.small, b.rows, b.order, &s.small)
		v.Index, v.Texts = s.small, b.texts
	case t.kind == reflect.Uint32:
		v.Repeated = gather(&c.small, b.rows, b.order, &s.small)
		v.Small = s.small
	default:
		v.Repeated = gather(&c.wide, b.rows, b.order, &s.ints)
		v.Ints = s.ints
	}
	return v
}

// gather makes a list of the values of a column in an order; or of one value, and returns of how many rows it is the
// value.
func gather[V comparable](l *list[V], rows int, order []uint32, to *[]V) (repeated int) {
	if same(l, rows) {
		*to = append((*to)[:0], l.blocks[0][0])
		return rows
	}
	*to = appendTo(l, rows, order, (*to)[:0])
	return 0
}
