package stats

import (
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
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
}

// functionCells is a row of library_functions.
type functionCells struct {
	Name    string `key:"name" title:"function"` // [function](probes.md), and the file that has it
	Library string `key:"library"`               // =
	totals         // calls; times include the functions that they call
	// part of the time of all functions; nested ones count twice
	Share *float64 `key:"share" title:"share" rank:"2"`
	spread
	Entries    uint64 `key:"entries" rank:"2"` // calls whose return was not recorded
	Left       uint64 `key:"left"`             // calls left without returning, and calls that had not returned
	Unfinished uint64 `key:"unfinished"`       // =
}

func (f *functions) table() *table.Table {
	total := totalOf(f.rows.list, func(r *libraryRow) *sketch.Distribution { return &r.time.Distribution })
	var rows []functionCells
	for _, r := range f.rows.list {
		rows = append(rows, functionCells{
			Name: r.name, Library: r.library, totals: totals{r.time.Count + r.left + r.unfinished + r.entries, r.time.Total},
			Share: table.ShareOf(r.time.Total, total), spread: spreadOf(&r.time), Entries: r.entries, Left: r.left, Unfinished: r.unfinished,
		})
	}
	t := table.Of(rows)
	t.Sort("total_ns")
	return t
}
