package pfsink

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/figures"
)

// threadTimes write the states of threads, and samples of what they ran.
type threadTimes struct {
	host    *timeline.Clock // of the first thread
	numbers map[processor]uint32
	crowded uint64 // states on processors for which there is no number
	states  map[*timeline.Thread]*perfetto.ThreadStates
	held    map[*timeline.Thread][]timeline.State // of threads that have nothing else in the trace so far
	holds   int                                   // states in held
	holders map[*timeline.Thread]bool             // for which others waited
	samples *perfetto.StackSamples
	stack   []perfetto.StackFrame
}

// A processor is one of those of a host, by the clock of the host's processes.
type processor struct {
	host   *timeline.Clock
	number uint32
}

// ownNumbers bounds the numbers of the first host's processors that traces show as they are. Processors of other hosts
// have the numbers from there on, in the order of first sight: for a trace, all processors are those of one machine.
const ownNumbers = perfetto.MaxCPUs / 4

// number returns the number of a processor in the trace. ok is false if there are too many.
func (t *threadTimes) number(of processor) (number uint32, ok bool) {
	if of.host == t.host && of.number < ownNumbers {
		return of.number, true
	}
	number, ok = t.numbers[of]
	if ok {
		return number, true
	}
	if number = ownNumbers + uint32(len(t.numbers)); number >= perfetto.MaxCPUs {
		return perfetto.MaxCPUs - 1, false
	}
	t.numbers[of] = number
	return number, true
}

// mostHeld is the number of states that wait. Those of further threads are drawn at once.
const mostHeld = 1 << 16

// states writes states of a thread. Those of one that is not the first of its process wait until it has a call, a range
// or a sample, or another thread waited for it: helpers that only sleep would have a row each.
func (s *Sink) states(e *timeline.States) {
	t := &s.times
	if t.held == nil {
		t.held, t.holders = make(map[*timeline.Thread][]timeline.State), make(map[*timeline.Thread]bool)
	}
	for i := range e.List {
		if why := e.List[i].Why; why != nil && why.Holder != nil {
			t.holders[why.Holder] = true
		}
	}
	if n := len(e.List); !e.Thread.Main && s.tracks.threads[e.Thread] == nil && n > 0 && t.holds+n <= mostHeld {
		t.held[e.Thread], t.holds = append(t.held[e.Thread], e.List...), t.holds+n
		return
	}
	s.writeHeld(e.Thread)
	s.writeStates(e)
}

// writeHeld writes the states of a thread that waited.
func (s *Sink) writeHeld(of *timeline.Thread) {
	list := s.times.held[of]
	delete(s.times.held, of)
	s.times.holds -= len(list)
	s.writeStates(&timeline.States{Thread: of, List: list})
}

// drawHeld writes the states that still wait of threads that turned out to be more than helpers, in the order of their
// first ones: the numbers of processors depend on it.
func (s *Sink) drawHeld() {
	var drawn []*timeline.Thread
	for of := range s.times.held {
		if s.tracks.threads[of] != nil || s.times.holders[of] {
			drawn = append(drawn, of)
		}
	}
	slices.SortFunc(drawn, func(a, b *timeline.Thread) int {
		return cmp.Or(cmp.Compare(s.times.held[a][0].Start, s.times.held[b][0].Start), cmp.Compare(a.TID, b.TID))
	})
	for _, of := range drawn {
		s.writeHeld(of)
	}
}

// writeStates writes states of a thread.
func (s *Sink) writeStates(e *timeline.States) {
	t := &s.times
	if len(e.List) == 0 {
		return
	}
	host := e.Thread.Process.Clock
	if t.states == nil {
		t.states, t.numbers, t.host = make(map[*timeline.Thread]*perfetto.ThreadStates), make(map[processor]uint32), host
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
		cpu, ok := t.number(processor{host, x.CPU})
		if !ok && state == perfetto.ThreadRunning {
			t.crowded++
			continue
		}
		out.State(x.Start, state, cpu)
	}
}

// noteCrowd says how many states are missing, and why.
func (s *Sink) noteCrowd() {
	if n := s.times.crowded; n > 0 {
		s.marks.note(&timeline.Note{
			Time: s.metrics.start, Text: fmt.Sprintf("%s in which they ran are drawn as the ones before: a trace has at most "+
				"%d processors", figures.Count(n, "state of threads", "states of threads"), perfetto.MaxCPUs),
		})
	}
}

// writeStacks writes samples of a thread: its Python frames and, above them, the innermost native one, or all native
// frames where it has no Python frames.
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
