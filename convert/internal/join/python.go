package join

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// maxUnseen is the longest time between two calls, in ns, through which a Python function is shown if both have it on their stacks. After
// a longer time nobody knows where the thread has been.
const maxUnseen = 10_000_000

// maxLines bounds the lines that are listed for a function.
const maxLines = 16

// pythonSpans show the Python functions of a thread: a function begins with the first call that has it on its stack, and ends with the last
// one before a call that has not. A function that is left and called again from the same line between two calls is one span.
type pythonSpans struct {
	thread *timeline.Thread
	track  *timeline.Track  // nil before the first span
	open   []pythonSpan     // outermost first
	stack  *timeline.Python // of the latest call with frames
	end    uint64           // of that call
	calls  uint64           // with frames

	before, from, until uint64 // end of the latest call but one that lies in no other call; start and end of the latest one
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

// begin ends the functions that are not on a stack, and begins those that are new: each a nanosecond before what it called, as far as the
// call before has ended by then. So whoever reads the trace sees which is within which.
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
