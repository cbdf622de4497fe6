package join

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// maxUnseen is the longest time between two calls, in ns, through which a function or an operator is shown if both have
// it on their stacks. After a longer time nobody knows where the thread has been.
const maxUnseen = 10_000_000

// maxLines bounds the lines that are listed for a function.
const maxLines = 16

// seen shows what is known of a thread from the stacks of its calls alone: Python functions, and PyTorch's operators.
type seen struct {
	python    pythonSpans
	operators operatorSpans

	from, until uint64 // the latest call that lies in no other call
	before      uint64 // end of the one before it, and of what ended with it
}

func newSeen(t *timeline.Thread, p *program) seen {
	return seen{python: pythonSpans{spans: seenSpans{thread: t, category: timeline.PythonFunctions, begun: &p.pythons}},
		operators: operatorSpans{spans: seenSpans{thread: t, category: timeline.Operators, begun: &p.operators}}}
}

// see takes the next call of the thread. A call shows its stacks for the call around it, too.
func (s *seen) see(c *timeline.Slice, out emitter) {
	if c.Start >= s.until {
		s.before, s.from = s.until, c.Start
		if s.operators.spans.calls > 0 {
			s.share(c.Start)
		}
		s.until = c.End
	}
	stack := c.Python
	if c.HasWork() {
		stack = s.python.spans.thread.Launching(stack)
	}
	if stack != nil || c.Operator != nil || s.operators.stack != nil {
		s.show(c, stack, out)
	}
}

// show shows the stacks of a call. Operators lie within the Python functions that begin with it, since PyTorch's own do
// not call Python.
func (s *seen) show(c *timeline.Slice, stack *timeline.Python, out emitter) {
	var entered []*timeline.Operator
	if !s.operators.spans.thread.Spans && (c.Operator != nil || s.operators.stack != nil) {
		entered = s.operators.leave(c, s, out)
	}
	if stack != nil && s.python.spans.end <= s.from {
		s.python.see(stack, s, len(entered), out)
	}
	if len(entered) > 0 {
		s.operators.enter(entered, c, s, out)
	}
}

// share divides the time between the latest two calls among what ends with the one and begins with the other.
func (s *seen) share(next uint64) {
	room := (next - s.until) / 2
	s.python.spans.room, s.operators.spans.room = min(s.python.spans.room, room), min(s.operators.spans.room, room)
	if s.operators.stack != nil {
		s.before += room
	}
}

func (s *seen) end(out emitter) {
	s.operators.spans.endFrom(0, out)
	s.python.spans.endFrom(0, out)
}

// seenSpans are spans of a kind that a thread's calls show: each begins with the first call that has it on its stack,
// and ends with the last one before a call that has not.
type seenSpans struct {
	thread   *timeline.Thread
	category timeline.Category
	track    *timeline.Track // nil before the first span
	open     []seenSpan      // outermost first
	begun    *uint64         // spans of the category in the program

	end   uint64 // of the latest call with a stack
	calls uint64 // with a stack
	depth int    // number of spans around that call that end after it, each endStep after the one within it
	room  uint64 // how long after that call spans may end, ns
}

// endStep is the time, in ns, between the ends of spans around a call of which one is an operator: readers that add
// microseconds in floating point see which is within which.
const endStep = 2

// A seenSpan is a span that has not ended.
type seenSpan struct {
	timeline.Span
	frame *timeline.PythonFrame // nil for an operator
	lines []uint32              // of a Python function
	more  bool                  // there are further lines
	since uint64                // seenSpans.calls before it
}

// unseen returns for how long there was no call with a stack.
func (p *seenSpans) unseen(s *seen) uint64 { return s.from - min(s.from, p.end) }

// called notes that the latest call has a stack.
func (p *seenSpans) called(s *seen, depth int) {
	p.end, p.depth, p.room = s.until, depth, timeline.Never
	p.calls++
}

// begin begins a span some ns before the latest call, as far as the call before has ended by then. So whoever reads the
// trace sees which is within which.
func (p *seenSpans) begin(f seenSpan, ahead int, s *seen, out emitter) {
	if p.track == nil {
		p.track = &timeline.Track{Process: p.thread.Process, Thread: p.thread, Category: p.category}
	}
	f.Start, f.Open, f.Depth, f.since = s.from-min(uint64(ahead), s.from-s.before), true, int32(len(p.open)), p.calls
	*p.begun++
	if f.Number = *p.begun; len(p.open) > 0 {
		f.Outer = p.open[len(p.open)-1].Number
	}
	out.Emit(&timeline.SpanBegin{Track: p.track, Span: f.Span})
	p.open = append(p.open, f)
}

// endFrom ends the spans from the n-th on.
func (p *seenSpans) endFrom(n int, out emitter, why ...timeline.Detail) {
	for i := len(p.open) - 1; i >= n; i-- {
		f := &p.open[i]
		f.End = p.end + min(endStep*uint64(max(0, p.depth-i)), p.room)
		late := []timeline.Detail{{Name: "calls", Value: p.calls - f.since}}
		if len(f.lines) > 0 {
			late = append(late, timeline.Detail{Name: "lines", Text: f.text()})
		}
		out.Emit(&timeline.SpanEnd{Track: p.track, Span: f.Span, Late: append(late, why...)})
	}
	clear(p.open[n:])
	p.open = p.open[:n]
}

// pythonSpans show the Python functions of a thread. A function that is left and called again from the same line
// between two calls is one span.
type pythonSpans struct {
	spans seenSpans
	stack *timeline.Python // of the latest call with frames
}

// see takes a call with frames, that is within so many operators that begin with it.
func (p *pythonSpans) see(stack *timeline.Python, s *seen, within int, out emitter) {
	unseen := p.spans.unseen(s)
	switch {
	case unseen > maxUnseen:
		p.spans.endFrom(0, out, timeline.Detail{Name: notSeen, Value: unseen})
		p.begin(stack, s, within, out)
	case stack != p.stack:
		p.begin(stack, s, within, out)
	}
	p.stack = stack
	depth := 0
	if operators := len(s.operators.spans.open) + within; operators > 0 {
		depth = len(p.spans.open) + operators
	}
	p.spans.called(s, depth)
}

// operatorSpans show PyTorch's operators of a thread. Whether two launches are of one instance of an operator is not in
// the log, but those with other Python lines are not, since PyTorch's own operators do not call Python. Each launch has
// an innermost operator of its own, so that two are never shown as one. The operators around it go on.
type operatorSpans struct {
	spans  seenSpans
	stack  *timeline.Operator // of the latest call in an operator, nil if one without came after it
	python *timeline.Python   // of that call
}

// leave takes the next call. It ends the operators that the call is not in, and returns those that begin, from the
// outside in. A call without an operator of which a stack or work is known is in none.
func (p *operatorSpans) leave(c *timeline.Slice, s *seen, out emitter) []*timeline.Operator {
	if p.spans.end > s.from {
		return nil // the call around it has been seen
	}
	if c.Operator == nil {
		if c.Python != nil || c.HasWork() {
			p.spans.endFrom(0, out)
			p.stack = nil
		}
		return nil
	}
	stack := slices.Collect(c.Operator.Chain())
	slices.Reverse(stack)
	if unseen := p.spans.unseen(s); unseen > maxUnseen && len(p.spans.open) > 0 {
		p.spans.endFrom(0, out, timeline.Detail{Name: notSeen, Value: unseen})
		return stack
	}
	n, open := 0, p.spans.open
	for n < min(len(stack), len(open)) && stack[n].Same(open[n].Operator) {
		if stack[n].Scope != timeline.RangeScope && (c.Python != p.python || n == len(stack)-1) {
			break
		}
		n++
	}
	p.spans.endFrom(n, out)
	if n == len(stack) {
		p.called(c, s, n)
	}
	return stack[n:]
}

// enter begins operators that the latest call is in.
func (p *operatorSpans) enter(operators []*timeline.Operator, c *timeline.Slice, s *seen, out emitter) {
	for i, o := range operators {
		span := seenSpan{Span: timeline.Span{Name: o.Name, Operator: o}}
		if o.Forward != nil {
			span.Args = []timeline.Detail{{Name: "forward_operator", Text: o.Forward.Stack()}}
		}
		p.spans.begin(span, len(operators)-i, s, out)
	}
	p.called(c, s, len(p.spans.open))
}

func (p *operatorSpans) called(c *timeline.Slice, s *seen, depth int) {
	p.stack, p.python = c.Operator, c.Python
	p.spans.called(s, depth)
}

// notSeen is the name of the fact that a span ended because there were no calls for so long.
const notSeen = "not_seen_for_ns"

// begin ends the functions that are not on a stack, and begins those that are new.
func (p *pythonSpans) begin(stack *timeline.Python, s *seen, within int, out emitter) {
	frames := slices.Collect(stack.Frames())
	slices.Reverse(frames)
	n := 0
	for n < min(len(frames), len(p.spans.open)) && frames[n].SameFunction(p.spans.open[n].frame) {
		n++
		// what it called from the other line has returned
		if f := &p.spans.open[n-1]; frames[n-1].Line != f.frame.Line {
			f.frame = frames[n-1].PythonFrame
			f.line(frames[n-1].Line)
			break
		}
	}
	p.spans.endFrom(n, out)
	for i, f := range frames[n:] {
		span := seenSpan{Span: timeline.Span{Name: f.Title()}, frame: f.PythonFrame}
		if f.File != "" {
			span.Args = []timeline.Detail{{Name: "file", Text: f.File}}
		}
		span.line(f.Line)
		p.spans.begin(span, within+len(frames)-n-i, s, out)
	}
}

func (f *seenSpan) line(n uint32) {
	switch {
	case n == 0 || slices.Contains(f.lines, n):
	case len(f.lines) == maxLines:
		f.more = true
	default:
		f.lines = append(f.lines, n)
	}
}

// text is the lines of a function: "7, 9, 12".
func (f *seenSpan) text() string {
	slices.Sort(f.lines)
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(f.lines), " ", ", "), "[]")
	if f.more {
		text += " and others"
	}
	return text
}
