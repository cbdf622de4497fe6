package timelinetest

import (
	"fmt"
	"math"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// Text shows a timeline as indented text.
func Text(tl *Timeline) string {
	var s text
	for _, g := range tl.GPUs {
		s.line("GPU %d: %s (device %d of process %d)", g.Index, g.Name, g.Device, g.PID)
	}
	for _, p := range tl.Processes {
		s.line("process %d %q %q", p.PID, p.Name, p.Args)
	}
	for _, p := range tl.Processes {
		s.process(p)
	}
	for _, u := range tl.Users {
		s.line("GPU %d is used by process %d %q from %d to %d, %d bytes", u.GPU, u.PID, u.Name, u.Start, u.End, u.Bytes)
	}
	for _, set := range tl.Samples {
		s.samples(set)
	}
	for _, r := range tl.Remarks {
		s.line("mark at %d: %s", r.Time, r.Text)
	}
	return s.String()
}

type text struct {
	strings.Builder
	depth int
	names timeline.KernelNames
}

func (s *text) line(format string, args ...any) {
	fmt.Fprintf(s, strings.Repeat("  ", s.depth)+format+"\n", args...)
}

func (s *text) samples(set *Series) {
	of := fmt.Sprintf("GPU %d", set.GPU)
	if set.Process != nil {
		of = fmt.Sprintf("process %d", set.Process.PID)
	}
	for _, u := range set.Users {
		of += fmt.Sprintf(", device %d of process %d", u.Number, u.Process.PID)
	}
	s.line("samples of %s: %s every %d, with work from %d to %d", of, set.Title(), set.Interval, set.Work.Start,
		set.Work.End)
	for _, x := range set.List {
		line := fmt.Sprintf("  %d to %d:", x.Start, x.End)
		for i, v := range x.Values {
			if !math.IsNaN(v) {
				line += fmt.Sprintf(" %s=%g%v", set.Label(i), v, set.Metrics[i].Unit)
			}
		}
		s.line("%s", line)
	}
}

func (s *text) process(p *ProcessTracks) {
	s.names = make(timeline.KernelNames)
	for _, th := range p.Threads {
		s.thread(th)
	}
	for _, t := range p.Tracks {
		s.track(t, "process")
	}
	for _, c := range p.Counters {
		s.counter(c)
	}
	for _, q := range p.Streams {
		s.stream(q)
	}
}

// closeTo ends slices until no more than depth are open.
func (s *text) closeTo(ends []uint64, depth int) []uint64 {
	for len(ends) > depth {
		s.depth--
		s.line("%d END", ends[len(ends)-1])
		ends = ends[:len(ends)-1]
	}
	return ends
}

func (s *text) thread(t *Thread) {
	s.line("thread %d/%d %q", t.Process.PID, t.TID, t.Name)
	s.depth = 1
	var ends []uint64
	for i := range t.Slices {
		sl := &t.Slices[i]
		ends = s.closeTo(ends, int(sl.Depth))
		s.line("%s", s.slice(sl))
		s.depth++
		ends = append(ends, sl.End)
	}
	s.closeTo(ends, 0)
	s.depth = 0
	for _, track := range t.Tracks {
		s.track(track, "the thread")
	}
	s.states(t)
}

func (s *text) states(t *Thread) {
	for _, x := range t.States {
		line := fmt.Sprintf("  %d +%d %s cpu=%d", x.Start, x.End-x.Start,
			[...]string{"running", "runnable", "blocked"}[x.ThreadState], x.CPU)
		if x.Why != nil {
			line += " " + x.Why.Text()
			if x.Why.Python != nil {
				line += fmt.Sprintf(" python=%q", x.Why.Python.Stack())
			}
		}
		s.line("%s", line)
	}
	for _, x := range t.Stacks {
		line := fmt.Sprintf("  sample at %d, mode %d, unread=%t", x.Time, x.SampleMode, x.Unread)
		for f := x.Native; f != nil; f = f.Parent {
			line += fmt.Sprintf(" native=%q", f.Text())
		}
		if x.Python != nil {
			line += fmt.Sprintf(" python=%q", x.Python.Stack())
		}
		s.line("%s", line)
	}
}

func (s *text) slice(sl *timeline.Slice) string {
	var args []string
	for i, v := range sl.Args {
		args = append(args, fmt.Sprintf("%s=%d", sl.Params[i].Name, v))
	}
	line := fmt.Sprintf("%d BEGIN %s %s(%s)", sl.Start, sl.Library, sl.Name, strings.Join(args, " "))
	if sl.Driver != "" {
		line += " driver=" + sl.Driver
	}
	if sl.Caller != nil {
		line += fmt.Sprintf(" caller=%q", sl.Caller.Text())
	}
	line += python(sl.Python) + operator(sl.Operator)
	if sl.Correlation != 0 {
		line += fmt.Sprintf(" correlation=%d", sl.Correlation)
	}
	if name := sl.ErrorName(); name != "" {
		line += " error=" + name
	}
	if sl.Flags != 0 {
		line += fmt.Sprintf(" flags=%d", sl.Flags)
	}
	if g := sl.Graph(); g != nil {
		line += fmt.Sprintf(" graph=%q", g.Text())
	}
	if len(sl.Work()) > 0 {
		line += fmt.Sprintf(" -> %d", sl.Work())
	}
	var waits []uint64
	for _, w := range sl.Waits() {
		waits = append(waits, w.Work)
	}
	if len(waits) > 0 {
		line += fmt.Sprintf(" <- %d", waits)
	}
	line += within(sl.Ranges)
	if sl.Kernel != nil {
		line += " kernel=" + s.names.Of(sl.Kernel.Name).Full
	}
	return line
}

func python(p *timeline.Python) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf(" python=%q of %q", p.Own().Text(), p.Stack())
}

func operator(o *timeline.Operator) string {
	if o == nil {
		return ""
	}
	text := fmt.Sprintf(" operator=%q", o.Stack())
	if made := o.Made(); made != nil {
		text += fmt.Sprintf(" made by %q", made.Stack())
	}
	return text
}

func (s *text) track(t *Track, of string) {
	if t.Stream != nil {
		of += fmt.Sprintf(" on stream %d", t.Stream.ID)
	}
	s.line("track of %s: %s %q", of, t.Category, t.Title())
	s.depth = 1
	var ends []uint64
	for i := range t.Spans {
		sp := &t.Spans[i]
		ends = s.closeTo(ends, int(sp.Depth))
		if sp.Instant {
			s.line("%d INSTANT %s%s", sp.Start, sp.Name, words(sp.Args))
			continue
		}
		s.line("%d BEGIN %s%s", sp.Start, sp.Name, words(sp.Args))
		s.depth++
		ends = append(ends, sp.End)
	}
	s.closeTo(ends, 0)
	s.depth = 0
}

func words(list []timeline.Detail) string {
	var b strings.Builder
	for _, d := range list {
		fmt.Fprintf(&b, " %s=%d%s", d.Name, d.Value, d.Text)
	}
	return b.String()
}

func (s *text) counter(c *Counter) {
	s.line("counter of process %d %q", c.Process.PID, c.Name)
	for _, p := range c.Points {
		s.line("  %d: %d", p.Time, p.Value)
	}
}

func (s *text) stream(q *Stream) {
	c := q.Context
	s.line("stream of process %d: GPU %d context %d stream %d default=%t", c.Process.PID, c.GPU, c.ID, q.ID, q.Default)
	if q.Name+c.Name != "" {
		s.line("  called %q in context %q", q.Name, c.Name)
	}
	s.depth = 1
	for i := range q.Work {
		w := &q.Work[i]
		s.line("%d +%d #%d %s untimed=%t%s%s", w.Start, w.Dur, w.ID, s.work(w), w.Untimed, words(w.NCCL.Details(nil)),
			cause(w))
	}
	s.depth = 0
}

func (s *text) work(w *timeline.Work) string {
	switch w.Kind {
	case timeline.KernelWork:
		k := &w.Shape.Kernel
		return fmt.Sprintf("kernel %s grid=%d block=%d", s.names.Of(k.Name).Short, k.Grid, k.Block)
	case timeline.MemcpyWork:
		return fmt.Sprintf("memcpy kind=%d bytes=%d", w.Shape.Memcpy.CopyKind, w.Shape.Memcpy.Bytes)
	}
	return fmt.Sprintf("memset bytes=%d", w.Shape.Memset.Bytes)
}

// cause names the call that caused a piece of work.
func cause(w *timeline.Work) string {
	if w.Call.Function == nil {
		return ""
	}
	return fmt.Sprintf(" by %s at %d of thread %d", w.Call.Name, w.Call.Start, w.Call.Thread.TID) +
		python(w.Call.Python) + operator(w.Call.Operator) + within(w.Call.Ranges) + captured(w)
}

// captured names the call that was captured into a graph, or says why none is known.
func captured(w *timeline.Work) string {
	if c := w.Captured; c != nil {
		return fmt.Sprintf(" captured at %d of thread %d: %s", c.Start, c.Thread.TID, c.Place()) + python(c.Python)
	}
	if w.Uncaptured != timeline.Named {
		return fmt.Sprintf(" (%v)", w.Uncaptured)
	}
	return ""
}

// within names the NVTX ranges around a call, the outermost one first.
func within(stack *timeline.RangeStack) string {
	if stack == nil {
		return ""
	}
	var names []string
	for _, s := range stack.Path(nil) {
		names = append(names, s.Name)
	}
	return fmt.Sprintf(" in %q", names)
}

// LossText shows a loss as text.
func LossText(l *timeline.Loss) string { return fmt.Sprintf("%d records lost: %s", l.Count, l.Cause) }
