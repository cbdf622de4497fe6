package stats

import (
	"cmp"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// other is the name of the row that counts what would need a row beyond [table.MaxRows].
const other = "other"

// A grouped report has rows that are groups of events. K is what the events of a row have in common. R is the row: its
// columns, and what they are made of. The declaration is a value, which declare makes a report.
type grouped[K comparable, R any] struct {
	Report
	row    func(K) R                      // a row without events
	others K                              // key of the row for everything beyond table.MaxRows
	from   func(*Sink, *query.Rows[K, R]) // has rows take events of the sink: which events, which row, what is measured
	of     func(*Sink) uint64             // the time that shares are parts of; nil for that of all rows
	fill   func(*Sink, *R, uint64)        // sets the columns that are made of what was measured, and of that time
	order  string                         // column whose largest values come first, "" for total_ns
	finish func(*table.Table, []*R)       // adds notes, hides columns; nil for nothing
	stacks func([]*R) *table.Folded       // nil for a report without any
	ifAny  bool                           // people see it without naming it only if it has rows
}

// declare makes a declaration a report.
func declare[K comparable, R any](g grouped[K, R]) *grouped[K, R] {
	g.open = func(s *Sink) {
		rows := query.NewRows(table.MaxRows, g.others, g.row)
		s.rows[&g.Report] = rows
		g.from(s, rows)
	}
	g.table = func(s *Sink, _ Facts) *table.Table { return g.tableOf(s) }
	if g.stacks != nil {
		g.fold = func(s *Sink) *table.Folded { return g.stacks(g.in(s).List) }
	}
	if g.ifAny {
		g.unasked = func(s *Sink) bool { return len(g.in(s).List) > 0 }
	}
	return &g
}

// in returns the rows of a sink.
func (g *grouped[K, R]) in(s *Sink) *query.Rows[K, R] { return s.rows[&g.Report].(*query.Rows[K, R]) }

func (g *grouped[K, R]) tableOf(s *Sink) *table.Table {
	rows, total := g.in(s).List, uint64(0)
	if g.of != nil {
		total = g.of(s)
	} else {
		for _, r := range rows {
			if timed, ok := any(r).(interface{ spent() uint64 }); ok {
				total = sketch.Sum(total, timed.spent())
			}
		}
	}
	for _, r := range rows {
		g.fill(s, r, total)
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
	captured query.Source[piece, from]                 // work of graphs, by the call that was captured
	spans    query.Source[timeline.SpanEnd, *timeline.Track]
	instants query.Source[timeline.Instant, *timeline.Track]
}

// A call is a call of a thread.
type call struct {
	*timeline.Slice
	thread   *timeline.Thread
	inner    bool               // it lies within another call of the thread
	function *activity.Function // what histories have of its function
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

// columns are the columns of the durations, with the number of things that have none. total is what the share is of.
func (t *timed) columns(total, more uint64) (totals, *float64, spread) {
	d := &t.time
	return totals{d.Count + more, d.Total}, table.ShareOf(d.Total, total), spreadOf(d)
}
