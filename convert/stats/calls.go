package stats

import (
	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// calls are the reports of calls: by function, by function and caller, and the failed ones.
type calls struct {
	clock   *clock
	byName  groups[functionKey, callRow]
	callers groups[callerKey, callRow]
	errors  groups[errorKey, errorRow]
	caches  struct {
		functions map[*timeline.Function]*callRow
		callers   map[from]*callRow
	}
	called    bool // a call has a caller
	replays   bool // a captured call was replayed
	functions activity.Functions
}

type functionKey struct{ name, library string }

type callerKey struct {
	functionKey
	caller string
}

// A from is a function and the place that called it.
type from struct {
	function *timeline.Function
	caller   *timeline.Caller
}

// A callRow has calls of one function.
type callRow struct {
	callerKey
	function           *activity.Function // nil in the rows by caller
	from               *timeline.Caller   // in the rows by caller; nil if it is not known
	outer              uint64             // ns of the calls within no other call
	time               sketch.Ordered     // of the calls that returned
	inner              uint64             // calls within another call
	failed, unfinished uint64
	replays, replayed  uint64 // pieces of work of graphs for which the calls were captured, and their time on the GPU
}

type errorKey struct {
	functionKey
	error string
}

// An errorRow has the failed calls of one function with one error.
type errorRow struct {
	errorKey
	count       uint64
	first, last uint64
	thread      *timeline.Thread // of the first call
	caller      *timeline.Caller // of the first call
}

func newCalls(c *clock) *calls {
	all := &calls{clock: c}
	all.byName = newGroups(functionKey{name: other}, func(k functionKey) *callRow {
		return &callRow{callerKey: callerKey{functionKey: k}, function: all.functions.Add(k.name, k.library)}
	})
	all.callers = newGroups(callerKey{functionKey{name: other}, other}, func(k callerKey) *callRow { return &callRow{callerKey: k} })
	all.errors = newGroups(errorKey{functionKey{name: other}, other}, func(k errorKey) *errorRow { return &errorRow{errorKey: k} })
	all.caches.functions = make(map[*timeline.Function]*callRow)
	all.caches.callers = make(map[from]*callRow)
	return all
}

// countCall counts a call and returns its function. An inner call lies within another call of its
// thread.
func (c *calls) countCall(t *timeline.Thread, sl *timeline.Slice, inner bool) *activity.Function {
	key := functionKey{sl.Name, sl.Library}
	c.called = c.called || sl.Caller != nil
	r := cached(c.caches.functions, sl.Function, func() *callRow { return c.byName.of(key) })
	r.countCall(sl, inner)
	cached(c.caches.callers, from{sl.Function, sl.Caller}, func() *callRow {
		r := c.callers.of(callerKey{key, callerText(sl.Caller)})
		r.from = sl.Caller
		return r
	}).countCall(sl, inner)
	if sl.Failed() {
		c.errors.of(errorKey{key, sl.ErrorName()}).countError(t, sl)
	}
	return r.function
}

// replay takes work of a graph, whose captured call may have a row.
func (c *calls) replay(w *timeline.Work) {
	made := w.Captured
	if made == nil {
		return
	}
	key := functionKey{made.Name, made.Library}
	r := cached(c.caches.callers, from{made.Function, made.Caller}, func() *callRow {
		return c.callers.of(callerKey{key, callerText(made.Caller)})
	})
	r.replays++
	r.replayed += w.Dur
	c.replays = true
}

// callerText is the text of a caller, "" of an unknown one.
func callerText(c *timeline.Caller) string {
	if c == nil {
		return ""
	}
	return c.Text()
}

func (r *callRow) countCall(sl *timeline.Slice, inner bool) {
	if inner {
		r.inner++
	}
	if sl.Failed() {
		r.failed++
	}
	if sl.Flags&timeline.Unfinished != 0 {
		r.unfinished++ // the end is a guess
		return
	}
	r.time.Add(length(sl))
	if !inner {
		r.outer = sketch.Sum(r.outer, length(sl))
	}
}

// length is the duration of a call.
func length(sl *timeline.Slice) uint64 { return sl.End - min(sl.Start, sl.End) }

func (r *errorRow) countError(t *timeline.Thread, sl *timeline.Slice) {
	r.count++
	if r.thread == nil || sl.Start < r.first {
		r.first, r.thread, r.caller = sl.Start, t, sl.Caller
	}
	r.last = max(r.last, sl.Start)
}

var callsReport = Report{
	Name: "calls", Title: "CUDA calls by function",
	whyEmpty: "no calls",
	table:    func(s *Sink, _ Facts) *table.Table { return s.calls.byFunction(s.threads.inCalls()) },
}

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
	Failed     uint64 `key:"failed" title:"failed" rank:"9"` // calls that returned an error, without "not ready" and "deinitialized"
	Inner      uint64 `key:"inner"`                          // calls within another call
	Unfinished uint64 `key:"unfinished"`                     // calls that had not returned
	Library    string `key:"library"`
}

// times are the columns of the row. total is the time that all threads spent in calls.
func (r *callRow) times(total uint64) callTimes {
	return callTimes{totals{r.time.Count + r.unfinished, r.time.Total}, table.ShareOf(r.time.Total, total), spreadOf(&r.time),
		r.failed, r.inner, r.unfinished, r.library}
}

// byFunction returns the report by function. total is the time that all threads spent in calls.
func (c *calls) byFunction(total uint64) *table.Table {
	var rows []callCells
	inner := uint64(0)
	for _, r := range c.byName.list {
		rows = append(rows, callCells{r.name, r.times(total)})
		inner += r.inner
	}
	t := table.Of(rows)
	t.Sort("total_ns")
	if inner > 0 {
		t.Notes = []string{figures.Count(inner, "call lies", "calls lie") + " within another one: shares add up to more than 100 %", "info does not count such calls"}
	}
	return t
}

var callersReport = Report{
	Name: "callers", Title: "CUDA calls by function and caller", Detail: true,
	needs: callersRecorded, whyEmpty: "no calls with a caller",
	table: func(s *Sink, _ Facts) *table.Table { return s.calls.byCaller(s.threads.inCalls()) },
	fold:  func(s *Sink) *table.Folded { return s.calls.folded() },
}

// callerCells is a row of callers.
type callerCells struct {
	Name      string `key:"name" title:"function"`
	Caller    string `key:"caller" title:"caller"` // library, function and offset
	callTimes        // as in `calls`
	// work of CUDA graphs whose [captured call](calls.md#graphs) the row has, and its time
	Replays  uint64 `key:"replays" title:"replays" rank:"9"`
	Replayed uint64 `key:"replayed_ns" title:"on the GPU" rank:"10"` // =
}

// byCaller returns the report by function and caller.
func (c *calls) byCaller(total uint64) *table.Table {
	var rows []callerCells
	if c.called {
		for _, r := range c.callers.list {
			rows = append(rows, callerCells{r.name, r.caller, r.times(total), r.replays, r.replayed})
		}
	}
	t := table.Of(rows)
	if !c.replays {
		t.Hide("replays", "replayed_ns")
	}
	t.Sort("total_ns")
	return t
}

// folded returns the callers as stacks: the library, its function, CUDA's function, with the time in calls that lie in no other one.
func (c *calls) folded() *table.Folded {
	f := new(table.Folded)
	for _, r := range c.callers.list {
		frames := []string{"(caller not known)", r.name}
		switch {
		case r.caller == other:
			frames = []string{other, r.name}
		case r.from != nil && r.from.Symbol != "":
			frames = []string{r.from.File(), r.from.Function(), r.name}
		case r.from != nil:
			frames = []string{r.from.File(), r.name}
		}
		f.Add(frames, r.outer)
	}
	return f
}

// totalOf sums the distributions of rows.
func totalOf[R any](rows []R, of func(R) *sketch.Distribution) (total uint64) {
	for _, r := range rows {
		total = sketch.Sum(total, of(r).Total)
	}
	return total
}

var errorsReport = Report{
	Name: "errors", Title: "failed calls",
	whyEmpty: "no failed calls",
	table:    func(s *Sink, _ Facts) *table.Table { return s.calls.errorTable() },
}

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
}

func (c *calls) errorTable() *table.Table {
	var rows []errorCells
	for _, r := range c.errors.list {
		rows = append(rows, errorCells{
			Name: r.name, Error: r.error, Count: r.count, First: c.clock.since(r.first), Last: c.clock.since(r.last),
			PID: r.thread.Process.PID, TID: r.thread.TID, Caller: callerText(r.caller), Library: r.library,
		})
	}
	t := table.Of(rows)
	t.Sort("count")
	return t
}
