package join

import (
	"slices"

	"github.com/ianlancetaylor/demangle"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// functions show the functions of any library as spans of their threads, on the tracks of the threads' calls.
type functions struct {
	catalog *read.Catalog
	program func(pid uint32, at uint64) *program
	out     *spanOutput
	byKey   map[read.ThreadKey]*functionThread
	order   []*functionThread // in the order of first sight
	names   map[*read.Function]string
}

// A functionThread has the functions of a thread.
type functionThread struct {
	lows    read.Lows
	events  inOrder[tracelog.FunctionEvent]
	lane    *lane     // of the program that runs; nil before the first event
	program *program  // that the lane is of
	open    []*fnSpan // that have not returned, outermost first
	pending []*fnSpan // not on the lane yet, in the order of their starts
}

// A fnSpan is a function that was entered.
type fnSpan struct {
	span
	id uint32
}

func newFunctions(c *read.Catalog, program func(uint32, uint64) *program, out *spanOutput) functions {
	return functions{catalog: c, program: program, out: out,
		byKey: make(map[read.ThreadKey]*functionThread), names: make(map[*read.Function]string)}
}

// readEvent queues the entry or the return of a row.
func (f *functions) readEvent(b *tracelog.Block, i int) {
	var r tracelog.FunctionEvent
	r.Read(b, i)
	key := read.ThreadKey{PID: r.PID, TID: r.TID}
	t := f.byKey[key]
	if t == nil {
		t = &functionThread{lows: f.catalog.Watermarks.Functions(r.PID, r.TID)}
		at := func(r *tracelog.FunctionEvent) uint64 { return r.Time }
		t.events = newInOrder(&f.out.budget.Records, &f.out.found.Late, at, nil)
		f.byKey[key], f.order = t, append(f.order, t)
	}
	t.events.add(r)
}

// advance shows what is known to be in order; with all, or where too much waits, everything.
func (f *functions) advance(all bool) {
	for _, t := range f.order {
		t.events.drain(t.lows.Low(), all, func(r *tracelog.FunctionEvent) {
			r.Time = t.events.taken
			f.event(t, r)
		})
		if all {
			f.finish(t)
		}
		t.show(&f.out.budget.Spans, all)
	}
}

// event takes the next entry or return of a thread.
func (f *functions) event(t *functionThread, r *tracelog.FunctionEvent) {
	if p := f.program(r.PID, r.Time); p != t.program {
		f.finish(t)
		t.show(&f.out.budget.Spans, true)
		track := &timeline.Track{Process: p.out, Thread: p.thread(r.TID), Category: timeline.Functions}
		track.Apart = f.catalog.Outcome.ClockError() != 0
		t.program, t.lane = p, &lane{out: f.out, track: track}
	}
	if r.Flags&tracelog.FunctionEntry != 0 {
		f.enter(t, r)
	} else {
		f.leave(t, r)
	}
}

func (f *functions) enter(t *functionThread, r *tracelog.FunctionEvent) {
	if len(t.open) == maxDepth {
		f.out.found.TooDeep++
		return
	}
	fn := f.catalog.Functions.ByID(r.Func)
	s := &fnSpan{id: r.Func}
	s.Name, s.Start, s.End, s.Open = f.name(fn), r.Time, timeline.Never, true
	args := slices.Clone(r.Args[:min(len(fn.Params), len(r.Args))])
	s.Function = &timeline.FunctionCall{Function: &fn.Function, Args: args}
	if r.Flags&tracelog.FunctionAlone != 0 {
		s.instant, s.Open, s.End = true, false, r.Time
	} else {
		t.open = append(t.open, s)
	}
	t.pending = append(t.pending, s)
	f.out.budget.Spans.held++
}

// leave takes a return. Functions within the one that returns have been left.
func (f *functions) leave(t *functionThread, r *tracelog.FunctionEvent) {
	n := len(t.open) - 1
	for n >= 0 && t.open[n].id != r.Func {
		n--
	}
	if n < 0 { // it was entered before recording, or its entry is lost
		return
	}
	for i := len(t.open) - 1; i >= n; i-- {
		s := t.open[i]
		s.Open, s.End = false, r.Time
		if i > n || r.Flags&tracelog.FunctionLeft != 0 {
			s.Flags = timeline.NoReturn
		} else {
			s.Function = &timeline.FunctionCall{Function: s.Function.Function, Args: s.Function.Args, Ret: r.Ret, Returned: true}
		}
	}
	t.open = t.open[:n]
}

// finish ends the functions that have not returned.
func (f *functions) finish(t *functionThread) {
	for _, s := range t.open {
		s.Open, s.End, s.Flags = false, max(t.program.horizon, t.events.taken), timeline.Unfinished
	}
	t.open = nil
}

// show puts functions on the track: those whose end is known, and, where too many are held back, those around them.
func (t *functionThread) show(spans *Bound, all bool) {
	n := 0
	for n < len(t.pending) && (all || !t.pending[n].Open || spans.over()) {
		s := &t.pending[n].span
		t.lane.endUntil(s.Start)
		t.lane.beginSpan(s)
		spans.held--
		n++
	}
	clear(t.pending[:n])
	t.pending = t.pending[n:]
	if all && t.lane != nil {
		t.lane.endAll()
	}
}

// name is the name of a function for people.
func (f *functions) name(fn *read.Function) string {
	name, known := f.names[fn]
	if !known {
		name = demangle.Filter(fn.Name, demangle.NoParams)
		f.names[fn] = name
	}
	return name
}
