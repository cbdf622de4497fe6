package pfsink

import (
	"path"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// threadTimes write the states of threads, and samples of what they ran.
type threadTimes struct {
	host    *timeline.Clock // whose processors are shown: those of several hosts have the same numbers
	states  map[*timeline.Thread]*perfetto.ThreadStates
	samples *perfetto.StackSamples
	stack   []perfetto.StackFrame
}

// writeStates writes states of a thread of the first host.
func (s *Sink) writeStates(e *timeline.States) {
	t := &s.times
	if t.states == nil {
		t.states, t.host = make(map[*timeline.Thread]*perfetto.ThreadStates), e.Thread.Process.Clock
	}
	if e.Thread.Process.Clock != t.host || len(e.List) == 0 {
		return
	}
	out := t.states[e.Thread]
	if out == nil {
		s.tracks.thread(e.Thread, e.List[0].Start)
		out = s.w.ThreadStates(e.Thread.TID, e.Thread.Title())
		t.states[e.Thread] = out
	}
	s.shown += uint64(len(e.List))
	for i := range e.List {
		x := &e.List[i]
		state := perfetto.ThreadSleeps
		switch {
		case x.ThreadState == timeline.Running:
			state = perfetto.ThreadRunning
		case x.ThreadState == timeline.Runnable:
			state = perfetto.ThreadRunnable
		case x.Why != nil && x.Why.Call == timeline.BlockFault:
			state = perfetto.ThreadWaits
		case x.Why != nil && x.Why.Call == timeline.BlockStopped:
			state = perfetto.ThreadStopped
		}
		out.State(x.Start, state, x.CPU)
	}
}

// writeStacks writes samples of a thread: its Python frames and, above them, the innermost native one, or all native frames where it
// has no Python frames.
func (s *Sink) writeStacks(e *timeline.StackSamples) {
	t := &s.times
	if len(e.List) == 0 {
		return
	}
	s.tracks.thread(e.Thread, e.List[0].Time)
	if t.samples == nil {
		t.samples = s.w.StackSamples("CPU time (ns)", max(e.Period, 1))
	}
	for i := range e.List {
		x := &e.List[i]
		t.stack = t.stack[:0]
		if x.SampleMode != timeline.InProgram {
			t.stack = append(t.stack, perfetto.StackFrame{Name: "(" + x.SampleMode.String() + ")", Of: "kernel"})
		}
		for f := range x.Native.Frames() {
			t.stack = append(t.stack, nativeFrame(f.NativeFrame))
			if x.Python != nil {
				break
			}
		}
		for f := range x.Python.Frames() {
			t.stack = append(t.stack, stackFrame(f.PythonFrame))
		}
		if len(t.stack) == 0 {
			continue
		}
		slices.Reverse(t.stack)
		t.samples.Sample(x.Time, e.Thread.Process.PID, e.Thread.TID, max(e.Period, 1), t.stack)
	}
}

func nativeFrame(f *timeline.NativeFrame) perfetto.StackFrame {
	name := f.Function()
	if name == "" {
		name = f.Text()
	}
	return perfetto.StackFrame{Name: name, Of: path.Base(f.Module)}
}
