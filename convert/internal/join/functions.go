package join

import (
	"fmt"
	"slices"
	"strings"

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

// maxUnseen is the longest time between two calls, in ns, through which a Python function is shown if both have it
// on their stacks. After a longer time nobody knows where the thread has been.
const maxUnseen = 10_000_000

// maxLines bounds the lines that are listed for a function.
const maxLines = 16

// pythonSpans show the Python functions of a thread: a function begins with the first call that has it on its
// stack, and ends with the last one before a call that has not. A function that is left and called again from the
// same line between two calls is one span.
type pythonSpans struct {
	thread *timeline.Thread
	track  *timeline.Track  // nil before the first span
	open   []pythonSpan     // outermost first
	stack  *timeline.Python // of the latest call with frames
	end    uint64           // of that call
	calls  uint64           // with frames
	begun  *uint64          // functions of all threads of the program

	from, until uint64 // the latest call that lies in no other call
	before      uint64 // end of the one before it
}

// A pythonSpan is a function that has not ended.
type pythonSpan struct {
	timeline.Span
	*timeline.PythonFrame
	lines []uint32
	more  bool   // there are further lines
	since uint64 // pythonSpans.calls before it
}

// see takes the next call of the thread. A call shows its stack for the call around it, too.
func (p *pythonSpans) see(c *timeline.Slice, out emitter) {
	if c.Start >= p.until {
		p.before, p.from, p.until = p.until, c.Start, c.End
	}
	stack := c.Python
	if c.HasWork() {
		stack = p.thread.Launching(stack)
	}
	if stack == nil || p.end > p.from {
		return
	}
	unseen := p.from - min(p.from, p.end)
	switch {
	case unseen > maxUnseen:
		p.endFrom(0, out, timeline.Detail{Name: "not_seen_for_ns", Value: unseen})
		p.begin(stack, out)
	case stack != p.stack:
		p.begin(stack, out)
	}
	p.stack, p.end = stack, p.until
	p.calls++
}

// begin ends the functions that are not on a stack, and begins those that are new: each a nanosecond before what it
// called, as far as the call before has ended by then. So whoever reads the trace sees which is within which.
func (p *pythonSpans) begin(stack *timeline.Python, out emitter) {
	frames := slices.Collect(stack.Frames())
	slices.Reverse(frames)
	n := 0
	for n < min(len(frames), len(p.open)) && frames[n].SameFunction(p.open[n].PythonFrame) {
		n++
		if f := &p.open[n-1]; frames[n-1].Line != f.Line { // what it called from the other line has returned
			f.PythonFrame = frames[n-1].PythonFrame
			f.line(frames[n-1].Line)
			break
		}
	}
	p.endFrom(n, out)
	for i, f := range frames[n:] {
		if p.track == nil {
			p.track = &timeline.Track{Process: p.thread.Process, Thread: p.thread, Category: timeline.PythonFunctions}
		}
		ahead := min(uint64(len(frames)-n-i), p.from-p.before)
		span := timeline.Span{Name: f.Title(), Start: p.from - ahead, Open: true, Depth: int32(n + i)}
		*p.begun++
		if span.Number = *p.begun; len(p.open) > 0 {
			span.Outer = p.open[len(p.open)-1].Number
		}
		if f.File != "" {
			span.Args = []timeline.Detail{{Name: "file", Text: f.File}}
		}
		out.Emit(&timeline.SpanBegin{Track: p.track, Span: span})
		p.open = append(p.open, pythonSpan{Span: span, PythonFrame: f.PythonFrame, since: p.calls})
		p.open[len(p.open)-1].line(f.Line)
	}
}

// endFrom ends the functions from the n-th on.
func (p *pythonSpans) endFrom(n int, out emitter, why ...timeline.Detail) {
	for i := len(p.open) - 1; i >= n; i-- {
		f := &p.open[i]
		f.End = p.end
		late := []timeline.Detail{{Name: "calls", Value: p.calls - f.since}}
		if len(f.lines) > 0 {
			late = append(late, timeline.Detail{Name: "lines", Text: f.text()})
		}
		out.Emit(&timeline.SpanEnd{Track: p.track, Span: f.Span, Late: append(late, why...)})
	}
	p.open = p.open[:n]
}

func (f *pythonSpan) line(n uint32) {
	switch {
	case n == 0 || slices.Contains(f.lines, n):
	case len(f.lines) == maxLines:
		f.more = true
	default:
		f.lines = append(f.lines, n)
	}
}

// text is the lines of a function: "7, 9, 12".
func (f *pythonSpan) text() string {
	slices.Sort(f.lines)
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(f.lines), " ", ", "), "[]")
	if f.more {
		text += " and others"
	}
	return text
}
