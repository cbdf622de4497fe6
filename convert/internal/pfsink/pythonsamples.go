package pfsink

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// maxSamples bounds the samples of a trace. Half as many at least tell shares of 0.03 % apart.
const maxSamples = 1 << 13

// maxGPUTime bounds the GPU time that is sampled, in ns. A hostile log may hold any.
const maxGPUTime = 1 << 62

// pythonSamples sample the GPU: each time that a thread's work has run for a period, whichever streams it ran on, the
// Python stack that launched what runs then. They are written at the end, when the period is known that needs
// maxSamples at most: it doubles when there are more.
type pythonSamples struct {
	every  uint64 // ns of GPU time
	total  uint64 // GPU time so far, of all threads
	next   uint64 // the GPU time of the next sample
	list   []gpuSample
	framed map[*timeline.Process]bool // processes whose launches have frames
}

type gpuSample struct {
	at     uint64
	thread *timeline.Thread
	python *timeline.Python // nil for none
	work   string
}

func newPythonSamples() pythonSamples {
	return pythonSamples{every: 1000, next: 1000, framed: make(map[*timeline.Process]bool)}
}

// sample takes a piece of work.
func (p *pythonSamples) sample(w *timeline.Work, names timeline.KernelNames) {
	t := w.Call.Thread
	if t == nil || !t.Python || w.Dur > maxGPUTime-p.total {
		return
	}
	if w.Call.Python != nil && !p.framed[t.Process] {
		p.framed[t.Process] = true
	}
	from := p.total
	p.total += w.Dur
	for p.next <= p.total {
		p.list = append(p.list, gpuSample{
			at: timeline.End(w.Start, p.next-from), thread: t, python: w.Call.Python, work: names.Title(w),
		})
		if len(p.list) == maxSamples {
			p.halve()
		}
		p.next += p.every
	}
}

// halve doubles the period, and keeps every other sample. There is an even number of samples.
func (p *pythonSamples) halve() {
	for i := range len(p.list) / 2 {
		p.list[i] = p.list[2*i+1]
	}
	clear(p.list[len(p.list)/2:])
	p.list = p.list[:len(p.list)/2]
	p.every *= 2
}

// writeSamples writes the samples of processes with frames.
func (s *Sink) writeSamples() {
	p := &s.samples
	list := slices.DeleteFunc(p.list, func(x gpuSample) bool { return !p.framed[x.thread.Process] })
	if len(list) == 0 {
		return
	}
	slices.SortStableFunc(list, func(a, b gpuSample) int { return cmp.Compare(a.at, b.at) })
	out := s.w.StackSamples("GPU time (ns)", p.every)
	frames := make(map[*timeline.PythonFrame]perfetto.StackFrame)
	for _, x := range list {
		var stack []perfetto.StackFrame
		for f := range x.python.Frames() {
			frame, known := frames[f.PythonFrame]
			if !known {
				frame = stackFrame(f.PythonFrame)
				frames[f.PythonFrame] = frame
			}
			stack = append(stack, frame)
		}
		slices.Reverse(stack)
		if len(stack) == 0 {
			stack = append(stack, perfetto.StackFrame{Name: x.thread.NoPython(), Of: "Python"})
		}
		stack = append(stack, perfetto.StackFrame{Name: x.work, Of: "GPU"})
		out.Sample(x.at, x.thread.Process.PID, x.thread.TID, p.every, stack)
	}
}

// stackFrame is a frame in a flame graph, whose boxes show the beginning of its name.
func stackFrame(f *timeline.PythonFrame) perfetto.StackFrame {
	if f.File == "" {
		return perfetto.StackFrame{Name: f.Function, Of: "Python"}
	}
	return perfetto.StackFrame{
		Name: fmt.Sprintf("%s %s:%d", f.Function, f.ShortFile(), f.Line), Of: f.ShortFile(), File: f.File, Line: f.Line,
	}
}
