package stats

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/activity"
	"github.com/cudatrace/cudatrace/convert/stats/sketch"
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
	Keys: []Key{
		{"name", ""},
		{"count, total_ns", ""},
		{"share", "part of the time that all threads spent in CUDA calls; nested calls count twice"},
		{"min_ns, median_ns, mean_ns, p95_ns, p99_ns, max_ns, stddev_ns, median_low_ns, median_high_ns", ""},
		{"failed", "calls that returned an error, without \"not ready\" and \"deinitialized\""},
		{"inner", "calls within another call"},
		{"unfinished", "calls that had not returned"},
		{"library", ""},
	},
}

// byFunction returns the report by function. total is the time that all threads spent in calls.
func (c *calls) byFunction(total uint64) *table.Table {
	t := new(table.Table)
	t.Columns = slices.Concat([]table.Column{name("function")}, totals(), spread(), callCounts())
	inner := uint64(0)
	for _, r := range c.byName.list {
		t.Rows = append(t.Rows, r.cells(total))
		inner += r.inner
	}
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
	Keys: []Key{
		{"name", ""},
		{"caller", "library, function and offset"},
		{"count, total_ns, share, min_ns, median_ns, mean_ns, p95_ns, p99_ns, max_ns, stddev_ns, median_low_ns, median_high_ns, failed, inner, unfinished, library", "as in `calls`"},
		{"replays, replayed_ns", "work of CUDA graphs whose [captured call](calls.md#graphs) the row has, and its time"},
	},
}

// byCaller returns the report by function and caller.
func (c *calls) byCaller(total uint64) *table.Table {
	t := new(table.Table)
	replays, replayed := "", ""
	if c.replays {
		replays, replayed = "replays", "on the GPU"
	}
	t.Columns = slices.Concat([]table.Column{name("function"), column("caller", "caller", table.Text, 0)}, totals(), spread(), callCounts(),
		[]table.Column{count("replays", replays, 9), column("replayed_ns", replayed, table.Duration, 10)})
	if c.called {
		for _, r := range c.callers.list {
			t.Rows = append(t.Rows, append(slices.Insert(r.cells(total), 1, text(r.caller)), r.replays, r.replayed))
		}
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

func callCounts() []table.Column {
	return []table.Column{
		count("failed", "failed", 9), count("inner", "", 0), count("unfinished", "", 0), column("library", "", table.Text, 0),
	}
}

func (r *callRow) cells(total uint64) []any {
	return slices.Concat([]any{r.name, r.time.Count + r.unfinished, r.time.Total, table.ShareOf(r.time.Total, total)}, spreadOf(&r.time),
		[]any{r.failed, r.inner, r.unfinished, text(r.library)})
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
	Keys: []Key{
		{"name, library", ""},
		{"error", "CUDA's name of the error"},
		{"count", ""},
		{"first_ns, last_ns", "start of the first and of the last"},
		{"pid, tid, caller", "thread and caller of the first"},
	},
}

func (c *calls) errorTable() *table.Table {
	t := &table.Table{Columns: []table.Column{
		name("function"), column("error", "error", table.Text, 0), count("count", "count", 1),
		column("first_ns", "first", table.Moment, 2), column("last_ns", "last", table.Moment, 3),
		id("pid", "", 0), id("tid", "thread", 4), column("caller", "caller", table.Text, 5),
		column("library", "", table.Text, 0),
	}}
	for _, r := range c.errors.list {
		t.Rows = append(t.Rows, []any{r.name, r.error, r.count, c.clock.since(r.first), c.clock.since(r.last),
			uint64(r.thread.Process.PID), uint64(r.thread.TID), text(callerText(r.caller)), text(r.library)})
	}
	t.Sort("count")
	return t
}
