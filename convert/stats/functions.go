package stats

import (
	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

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

	timed // calls that returned
}

type libraryKey struct{ name, library string }

var functionsReport = declare(grouped[libraryKey, functionCells]{
	Report: Report{
		Name: "library_functions", Title: "Functions of libraries and programs, without CUDA's",
		whyEmpty: "no functions of libraries were recorded",
	},
	ifAny:  true,
	things: calls,
	others: libraryKey{name: other},
	row:    func(k libraryKey) functionCells { return functionCells{Name: k.name, Library: k.library} },
	from: func(s *section, rows *query.Rows[libraryKey, functionCells]) {
		s.spans.Each(func(e *timeline.SpanEnd) {
			if e.Function == nil {
				return
			}
			switch r := rows.Of(libraryKey{e.Name, e.Function.Library}); {
			case e.Flags&timeline.Unfinished != 0:
				r.Unfinished++
			case e.Flags&timeline.NoReturn != 0:
				r.Left++
			default:
				r.time.Add(e.End - min(e.End, e.Start))
			}
		})
		s.instants.Each(func(e *timeline.Instant) {
			if e.Function != nil {
				rows.Of(libraryKey{e.Name, e.Function.Library}).Entries++
			}
		})
	},
	merge: func(r, later *functionCells) {
		r.timed.merge(&later.timed)
		r.Entries, r.Left, r.Unfinished = r.Entries+later.Entries, r.Left+later.Left, r.Unfinished+later.Unfinished
	},
	fill: func(_ *view, r *functionCells, total uint64) {
		r.totals, r.Share, r.spread = r.columns(total, r.Entries+r.Left+r.Unfinished)
	},
})
