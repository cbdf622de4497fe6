package stats

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// callCells is a row of calls.
type callCells struct {
	Name string `key:"name" title:"function"`
	callTimes
}

// callTimes are the columns of calls, and of callers, behind what the calls are.
type callTimes struct {
	totals
	// part of the time that all threads spent in CUDA calls; nested calls count twice
	Share *float64 `key:"share" title:"share" rank:"2"`
	spread
	// calls that returned an error, without "not ready" and "deinitialized"
	Failed     uint64 `key:"failed" title:"failed" rank:"9"`
	Inner      uint64 `key:"inner"`      // calls within another call
	Unfinished uint64 `key:"unfinished"` // calls that had not returned
	Library    string `key:"library"`

	timed // calls that returned
}

type functionKey struct{ name, library string }

func (f from) functionKey() functionKey { return functionKey{f.function.Name, f.function.Library} }

func (r *callTimes) countCall(c *call) {
	if c.inner {
		r.Inner++
	}
	if c.Failed() {
		r.Failed++
	}
	if c.Flags&timeline.Unfinished != 0 {
		r.Unfinished++ // the end is a guess
		return
	}
	r.time.Add(length(c.Slice))
}

func (r *callTimes) merge(later *callTimes) {
	r.timed.merge(&later.timed)
	r.Failed, r.Inner, r.Unfinished = r.Failed+later.Failed, r.Inner+later.Inner, r.Unfinished+later.Unfinished
}

func (r *callTimes) fillCall(total uint64) {
	r.totals, r.Share, r.spread = r.columns(total, r.Unfinished)
}

// length is the duration of a call.
func length(sl *timeline.Slice) uint64 { return sl.End - min(sl.Start, sl.End) }

// inCalls is the time that all threads spent in calls.
func inCalls(v *view) uint64 { return v.inCalls }

var callsReport = declare(grouped[functionKey, callCells]{
	Report: Report{Name: "calls", Title: "CUDA calls by function", whyEmpty: "no calls"},
	things: calls,
	others: functionKey{name: other},
	row:    func(k functionKey) callCells { return callCells{k.name, callTimes{Library: k.library}} },
	from: func(s *section, rows *query.Rows[functionKey, callCells]) {
		s.calls.By(func(f from) func(*call) { return rows.Of(f.functionKey()).countCall })
	},
	merge: func(r, later *callCells) { r.merge(&later.callTimes) },
	of:    inCalls,
	fill:  func(_ *view, r *callCells, total uint64) { r.fillCall(total) },
	finish: func(t *table.Table, rows []*callCells) {
		inner := uint64(0)
		for _, r := range rows {
			inner += r.Inner
		}
		if inner > 0 {
			lie := figures.Count(inner, "call lies", "calls lie")
			t.Notes = []string{lie + " within another one: shares add up to more than 100 %", "info does not count such calls"}
		}
	},
})

// callerCells is a row of callers.
type callerCells struct {
	Name      string `key:"name" title:"function"`
	Caller    string `key:"caller" title:"caller"` // library, function and offset
	callTimes        // as in `calls`
	// work of CUDA graphs whose [captured call](calls.md#graphs) the row has, and its time
	Replays  uint64 `key:"replays" title:"replays" rank:"9"`
	Replayed uint64 `key:"replayed_ns" title:"on the GPU" rank:"10"` // =

	from  *timeline.Caller // nil if it is not known
	outer uint64           // ns of the calls within no other call
}

type callerKey struct {
	functionKey
	caller string
}

func (f from) callerKey() callerKey { return callerKey{f.functionKey(), callerText(f.caller)} }

// callerText is the text of a caller, "" of an unknown one.
func callerText(c *timeline.Caller) string {
	if c == nil {
		return ""
	}
	return c.Text()
}

var callersReport = declare(grouped[callerKey, callerCells]{
	Report: Report{
		Name: "callers", Title: "CUDA calls by function and caller", Detail: true,
		needs: callersRecorded, whyEmpty: "no calls with a caller",
	},
	things: calls,
	others: callerKey{functionKey{name: other}, other},
	row: func(k callerKey) callerCells {
		return callerCells{Name: k.name, Caller: k.caller, callTimes: callTimes{Library: k.library}}
	},
	from: func(s *section, rows *query.Rows[callerKey, callerCells]) {
		s.calls.By(func(f from) func(*call) {
			r := rows.Of(f.callerKey())
			r.from = f.caller
			return func(c *call) {
				r.countCall(c)
				if !c.inner && c.Flags&timeline.Unfinished == 0 {
					r.outer = sketch.Sum(r.outer, length(c.Slice))
				}
			}
		})
		s.captured.By(func(f from) func(*piece) {
			r := rows.Of(f.callerKey())
			return func(w *piece) {
				r.Replays++
				r.Replayed += w.Dur
			}
		})
	},
	merge: func(r, later *callerCells) {
		r.merge(&later.callTimes)
		r.Replays, r.Replayed, r.outer = r.Replays+later.Replays, r.Replayed+later.Replayed, sketch.Sum(r.outer, later.outer)
		r.from = later.from
	},
	of:   inCalls,
	fill: func(_ *view, r *callerCells, total uint64) { r.fillCall(total) },
	finish: func(t *table.Table, rows []*callerCells) {
		if !slices.ContainsFunc(rows, func(r *callerCells) bool { return r.from != nil }) {
			t.Rows = nil
		}
		if !slices.ContainsFunc(rows, func(r *callerCells) bool { return r.Replays > 0 }) {
			t.Hide("replays", "replayed_ns")
		}
	},
	stacks: func(rows []*callerCells) *table.Folded {
		f := new(table.Folded)
		for _, r := range rows {
			frames := []string{"(caller not known)", r.Name}
			switch {
			case r.Caller == other:
				frames = []string{other, r.Name}
			case r.from != nil && r.from.Symbol != "":
				frames = []string{r.from.File(), r.from.Function(), r.Name}
			case r.from != nil:
				frames = []string{r.from.File(), r.Name}
			}
			f.Add(frames, r.outer)
		}
		return f
	},
})
