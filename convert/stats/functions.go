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
	open map[*timeline.Track][]openFunction // innermost last
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

type openFunction struct {
	row   *libraryRow
	start uint64
	args  []timeline.Detail
}

func newFunctions() functions {
	return functions{open: make(map[*timeline.Track][]openFunction), rows: newGroups(libraryKey{name: other}, func(k libraryKey) *libraryRow { return &libraryRow{libraryKey: k} })}
}

func (f *functions) row(s *timeline.Span) *libraryRow {
	key := libraryKey{name: s.Name}
	if i := slices.IndexFunc(s.Args, func(d timeline.Detail) bool { return d.Name == "library" }); i >= 0 {
		key.library = s.Args[i].Text
	}
	return f.rows.of(key)
}

func (f *functions) begin(e *timeline.SpanBegin) {
	if e.Track.Category == timeline.Functions {
		f.open[e.Track] = append(f.open[e.Track], openFunction{f.row(&e.Span), e.Start, e.Args})
	}
}

func (f *functions) end(e *timeline.SpanEnd) {
	open := f.open[e.Track]
	if len(open) == 0 {
		return
	}
	o := open[len(open)-1]
	f.open[e.Track] = open[:len(open)-1]
	has := func(name string) bool {
		is := func(d timeline.Detail) bool { return d.Name == name }
		return slices.ContainsFunc(o.args, is) || slices.ContainsFunc(e.Args, is)
	}
	switch {
	case has("unfinished"):
		o.row.unfinished++
	case has("no_return"):
		o.row.left++
	default:
		o.row.time.Add(e.Time - min(e.Time, o.start))
	}
}

// entry takes a function of which the return was not recorded.
func (f *functions) entry(e *timeline.Instant) {
	if e.Track.Category == timeline.Functions {
		f.row(&e.Span).entries++
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
