package stats

import "github.com/cudatrace/cudatrace/convert/internal/query"

// errorCells is a row of errors.
type errorCells struct {
	Name    string `key:"name" title:"function"`
	Error   string `key:"error" title:"error"` // CUDA's name of the error
	Count   uint64 `key:"count" title:"count" rank:"1"`
	First   uint64 `key:"first_ns" title:"first" rank:"2" unit:"moment"` // start of the first and of the last
	Last    uint64 `key:"last_ns" title:"last" rank:"3" unit:"moment"`   // =
	PID     uint32 `key:"pid" unit:"id"`                                 // thread and caller of the first
	TID     uint32 `key:"tid" title:"thread" rank:"4" unit:"id"`         // =
	Caller  string `key:"caller" title:"caller" rank:"5"`                // =
	Library string `key:"library"`

	first, last uint64 // of the timeline
}

type errorKey struct {
	functionKey
	error string
}

var errorsReport = declare(grouped[errorKey, errorCells]{
	Report: Report{Name: "errors", Title: "failed calls", whyEmpty: "no failed calls"},
	order:  "count",
	whole:  true,
	others: errorKey{functionKey{name: other}, other},
	row:    func(k errorKey) errorCells { return errorCells{Name: k.name, Error: k.error, Library: k.library} },
	from: func(s *section, rows *query.Rows[errorKey, errorCells]) {
		s.failed.Each(func(c *call) {
			r := rows.Of(errorKey{functionKey{c.Name, c.Library}, c.ErrorName()})
			if r.Count == 0 || c.Start < r.first {
				r.first, r.PID, r.TID, r.Caller = c.Start, c.thread.Process.PID, c.thread.TID, callerText(c.Caller)
			}
			r.Count++
			r.last = max(r.last, c.Start)
		})
	},
	merge: func(r, later *errorCells) {
		if r.Count == 0 || later.first < r.first {
			r.first, r.PID, r.TID, r.Caller = later.first, later.PID, later.TID, later.Caller
		}
		r.Count, r.last = r.Count+later.Count, max(r.last, later.last)
	},
	fill: func(s *view, r *errorCells, _ uint64) {
		r.First, r.Last = s.clock.since(r.first), s.clock.since(r.last)
	},
})
