package live

import (
	"cmp"
	"slices"
)

const (
	maxRows = 1 << 12 // of a table
	others  = "(others)"
)

// rows are the rows of a table by their keys.
type rows struct {
	byKey map[string]*row
	list  []*row // in the order of first use
}

// A row is a Row without the figures of an interval.
type row struct {
	name string
	all  Count
}

func newRows() rows { return rows{byKey: make(map[string]*row)} }

// of returns the row of a key; name makes the name of a new one. What is beyond maxRows has one row.
func (t *rows) of(key string, name func(string) string) *row {
	r := t.byKey[key]
	if r != nil {
		return r
	}
	if len(t.list) >= maxRows {
		if r = t.byKey[others]; r != nil {
			return r
		}
		key, name = others, same
	}
	r = &row{name: name(key)}
	t.byKey[key] = r
	t.list = append(t.list, r)
	return r
}

func same(key string) string { return key }

// close ends an interval: it adds the figures of the interval and returns all rows, those with the most
// time, bytes and number in the interval first.
func (t *rows) close(now map[*row]*Count) []Row {
	list := make([]Row, 0, len(t.list))
	for _, r := range t.list {
		line := Row{Name: r.name}
		if n := now[r]; n != nil {
			r.all.add(*n)
			line.Now = *n
		}
		line.All = r.all
		if line.All.N > 0 {
			list = append(list, line)
		}
	}
	slices.SortStableFunc(list, func(a, b Row) int {
		return cmp.Or(b.Now.compare(&a.Now), b.All.compare(&a.All), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func (c *Count) compare(o *Count) int {
	return cmp.Or(cmp.Compare(c.Time, o.Time), cmp.Compare(c.Bytes, o.Bytes), cmp.Compare(c.N, o.N))
}
