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

// kernelFrames stand for the kernel in a stack.
var kernelFrames = map[timeline.SampleMode]perfetto.StackFrame{
	timeline.InKernel: {Name: "(kernel)", Of: "kernel"},
	timeline.InCall:   {Name: "(system call)", Of: "kernel"},
	timeline.InFault:  {Name: "(page fault or interrupt)", Of: "kernel"},
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
		if frame, ok := kernelFrames[x.SampleMode]; ok {
			t.stack = append(t.stack, frame)
		}
		depth := 0
		for f := x.Native; f != nil && depth < maxNative && (x.Python == nil || depth == 0); f = f.Parent {
			t.stack = append(t.stack, nativeFrame(f.NativeFrame))
			depth++
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

// maxNative bounds the native frames of a stack. A recorder reads fewer.
const maxNative = 128

func nativeFrame(f *timeline.NativeFrame) perfetto.StackFrame {
	name := f.Function()
	if name == "" {
		name = f.Text()
	}
	return perfetto.StackFrame{Name: name, Of: path.Base(f.Module)}
}
