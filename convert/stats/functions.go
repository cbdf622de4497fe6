package stats

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// functions is the report of functions of any library.
type functions struct {
	rows groups[libraryKey, libraryRow]
}

type libraryKey struct{ name, library string }

// A libraryRow has the calls of a function.
type libraryRow struct {
	libraryKey
	time       sketch.Ordered // of those that returned
	left       uint64
	unfinished uint64
	entries    uint64 // of which the return was not recorded
}

func newFunctions() functions {
	row := func(k libraryKey) *libraryRow { return &libraryRow{libraryKey: k} }
	return functions{newGroups(libraryKey{name: other}, row)}
}

func (f *functions) countFunction(e *timeline.SpanEnd) {
	if e.Function == nil {
		return
	}
	switch r := f.rows.of(libraryKey{e.Name, e.Function.Library}); {
	case e.Flags&timeline.Unfinished != 0:
		r.unfinished++
	case e.Flags&timeline.NoReturn != 0:
		r.left++
	default:
		r.time.Add(e.End - min(e.End, e.Start))
	}
}

// countEntry counts a call of which the return was not recorded.
func (f *functions) countEntry(e *timeline.Instant) {
	if e.Function != nil {
		f.rows.of(libraryKey{e.Name, e.Function.Library}).entries++
	}
}

var functionsReport = Report{
	Name: "library_functions", Title: "Functions of libraries and programs, without CUDA's",
	unasked: func(s *Sink) bool { return len(s.functions.rows.list) > 0 }, whyEmpty: "no functions of libraries were recorded",
	table: func(s *Sink, _ Facts) *table.Table { return s.functions.table() },
	Keys: []Key{
		{"name, library", "[function](probes.md), and the file that has it"},
		{"count, total_ns", "calls; times include the functions that they call"},
		{"share", "part of the time of all functions; nested ones count twice"},
		{"min_ns, median_ns, mean_ns, p95_ns, p99_ns, max_ns, stddev_ns, median_low_ns, median_high_ns", ""},
		{"entries", "calls whose return was not recorded"},
		{"left, unfinished", "calls left without returning, and calls that had not returned"},
	},
}

func (f *functions) table() *table.Table {
	t := new(table.Table)
	t.Columns = slices.Concat([]table.Column{name("function"), column("library", "", table.Text, 0)}, totals(), spread(),
		[]table.Column{count("entries", "", 2), count("left", "", 0), count("unfinished", "", 0)})
	total := totalOf(f.rows.list, func(r *libraryRow) *sketch.Distribution { return &r.time.Distribution })
	for _, r := range f.rows.list {
		t.Rows = append(t.Rows, slices.Concat([]any{r.name, text(r.library), r.time.Count + r.left + r.unfinished + r.entries, r.time.Total, table.ShareOf(r.time.Total, total)},
			spreadOf(&r.time), []any{r.entries, r.left, r.unfinished}))
	}
	t.Sort("total_ns")
	return t
}
