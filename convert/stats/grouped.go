package stats

import (
	"cmp"
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// other is the name of the row that counts what would need a row beyond [table.MaxRows].
const other = "other"

// What rows count.
var (
	calls   = [2]string{"call", "calls"}
	kernels = [2]string{"kernel", "kernels"}
)

// A grouped report has rows that are groups of events. K is what the events of a row have in common. R is the row: its
// columns, and what they are made of. The declaration is a value, which declare makes a report.
type grouped[K comparable, R any] struct {
	Report
	row    func(K) R // a row without events
	others K         // key of the row for everything beyond table.MaxRows
	// has rows take events of a section: which events, which row, what is measured
	from   func(*section, *query.Rows[K, R])
	merge  func(into, later *R)              // adds what another row with the same key measured
	ready  func(*section, *query.Rows[K, R]) // completes the rows before they are read; nil for nothing
	of     func(*view) uint64                // the time that shares are parts of; nil for that of all rows
	fill   func(*view, *R, uint64)           // sets the columns that are made of what was measured, and of that time
	things [2]string                         // what the rows count: "call", "calls"
	sums   [2]string                         // columns of how many they are, and of their time; "" for count and total_ns
	whole  bool                              // the start-up always counts
	order  string                            // column whose largest values come first, "" for total_ns
	finish func(*table.Table, []*R)          // adds notes, hides columns; nil for nothing
	stacks func([]*R) *table.Folded          // nil for a report without any
	ifAny  bool                              // people see it without naming it only if it has rows
}

// declare makes a declaration a report.
func declare[K comparable, R any](g grouped[K, R]) *grouped[K, R] {
	g.open = func(s *section) {
		rows := query.NewRows(table.MaxRows, g.others, g.row)
		s.rows[&g.Report] = rows
		g.from(s, rows)
	}
	g.join = func(into, later *section) { g.mergeRows(g.in(into), g.in(later)) }
	g.Report.in = g.tableIn
	g.table = func(s *Sink, f Facts) *table.Table { return g.tableOf(s, f.Startup) }
	if g.stacks != nil {
		g.fold = func(s *Sink, f Facts) *table.Folded { return g.stacks(g.rowsOf(s.counts(f.Startup)).List) }
	}
	if g.ifAny {
		g.unasked = func(s *Sink) bool { return len(g.rowsOf(s.view().whole).List) > 0 }
	}
	return &g
}

// in returns the rows of a section.
func (g *grouped[K, R]) in(s *section) *query.Rows[K, R] {
	return s.rows[&g.Report].(*query.Rows[K, R])
}

func (g *grouped[K, R]) mergeRows(into, later *query.Rows[K, R]) {
	for key, r := range later.All() {
		g.merge(into.Of(key), r)
	}
}

// rowsOf returns the rows of a view.
func (g *grouped[K, R]) rowsOf(v *view) *query.Rows[K, R] {
	if known := v.rows[&g.Report]; known != nil {
		return known.(*query.Rows[K, R])
	}
	var some []*query.Rows[K, R]
	for _, s := range v.of {
		rows := g.in(s)
		if g.ready != nil {
			g.ready(s, rows)
		}
		if len(rows.List) > 0 {
			some = append(some, rows)
		}
	}
	var all *query.Rows[K, R]
	if len(some) == 1 {
		all = some[0]
	} else {
		all = query.NewRows(table.MaxRows, g.others, g.row)
		for _, rows := range some {
			g.mergeRows(all, rows)
		}
	}
	v.rows[&g.Report] = all
	return all
}

func (g *grouped[K, R]) tableOf(s *Sink, startup bool) *table.Table {
	startup = startup || g.whole
	t := g.tableIn(s.counts(startup))
	if startup {
		return t
	}
	before := g.tableIn(s.view().starting)
	count, total := before.Column(cmp.Or(g.sums[0], "count")), before.Column(cmp.Or(g.sums[1], "total_ns"))
	things, ns := uint64(0), uint64(0)
	for _, r := range before.Rows {
		things, ns = sketch.Sum(things, r.Cells[count].(uint64)), sketch.Sum(ns, r.Cells[total].(uint64))
	}
	if things > 0 {
		t.Notes = append(t.Notes, startupNote(things, g.things, ns))
	}
	return t
}

// startupNote says how many things of a start-up are left out, and their time.
func startupNote(n uint64, things [2]string, ns uint64) string {
	return fmt.Sprintf("start-up: %s, %s more (--with-startup counts them)",
		figures.Count(n, things[0], things[1]), table.Words(ns, table.Duration))
}

// tableIn returns the report of a view.
func (g *grouped[K, R]) tableIn(v *view) *table.Table {
	rows, total := g.rowsOf(v).List, uint64(0)
	if g.of != nil {
		total = g.of(v)
	} else {
		for _, r := range rows {
			if timed, ok := any(r).(interface{ spent() uint64 }); ok {
				total = sketch.Sum(total, timed.spent())
			}
		}
	}
	for _, r := range rows {
		g.fill(v, r, total)
	}
	t := table.OfRows(rows)
	t.Sort(cmp.Or(g.order, "total_ns"))
	if g.finish != nil {
		g.finish(t, rows)
	}
	return t
}

// sources are the events that reports read.
type sources struct {
	calls    query.Source[call, from]
	failed   query.Source[call, from]
	waits    query.Source[call, *timeline.Thread]      // calls that waited for GPU work
	work     [3]query.Source[piece, *timeline.Shape]   // by kind
	ranged   query.Source[piece, *timeline.RangeStack] // work whose call was made in NVTX ranges
	lined    query.Source[piece, *timeline.Python]     // work whose call has Python frames
	operated query.Source[piece, *timeline.Operator]   // work whose call was made in an operator
	captured query.Source[piece, from]                 // work of graphs, by the call that was captured
	spans    query.Source[timeline.SpanEnd, *timeline.Track]
	instants query.Source[timeline.Instant, *timeline.Track]
}

// A call is a call of a thread.
type call struct {
	*timeline.Slice
	thread *timeline.Thread
	inner  bool // it lies within another call of the thread
	// ns that the thread spent in the call, and in no earlier one; those that it waited for GPU work likewise
	took, waited uint64
	function     *activity.Function // what histories have of its function
}

// from is a function and the place that called it.
type from struct {
	function *timeline.Function
	caller   *timeline.Caller
}

// A piece is a piece of work of a stream.
type piece struct {
	*timeline.Work
	on    *streamRow
	class activity.Class
}

// timed measures the durations of a row.
type timed struct{ time sketch.Ordered }

// spent is the time of the row.
func (t *timed) spent() uint64 { return t.time.Total }

// merge adds the durations of another row, which came later.
func (t *timed) merge(later *timed) { t.time.Merge(&later.time) }

// columns are the columns of the durations, with the number of things that have none. total is what the share is of.
func (t *timed) columns(total, more uint64) (totals, *float64, spread) {
	d := &t.time
	return totals{d.Count + more, d.Total}, table.ShareOf(d.Total, total), spreadOf(d)
}
