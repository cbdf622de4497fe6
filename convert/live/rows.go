package live

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

const (
	maxRows = 1 << 12 // of a table
	others  = "(others)"
)

// rows are the rows of a table by their keys.
type rows struct{ *query.Rows[string, row] }

// A row is a Row without the figures of an interval.
type row struct {
	name string
	all  Count
}

// newRows returns rows without any; name makes the name of one from its key. What is beyond maxRows has one row.
func newRows(name func(string) string) rows {
	return rows{query.NewRows(maxRows, others, func(key string) row { return row{name: name(key)} })}
}

func same(key string) string { return key }

// kernelName is the name of a kernel for people.
func kernelName(mangled string) string {
	if mangled == others {
		return others
	}
	return timeline.KernelNames{}.Of(mangled).Short
}

// close ends an interval: it adds the figures of the interval and returns all rows, those with the most
// time, bytes and number in the interval first.
func (t *rows) close(now map[*row]*Count) []Row {
	list := make([]Row, 0, len(t.List))
	for _, r := range t.List {
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
