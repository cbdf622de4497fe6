package chromesink

import (
	"io"
	"math"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/steppaths"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// Options are the options of a sink.
type Options struct {
	// Open opens the file of a process. It is called once for each process that has events; for
	// a timeline without events it is called once.
	Open func(*timeline.Process) (io.Writer, error)
	// Shown says of the call of a piece of work whether the timeline has it; nil is every call. Work
	// without its call has no arrow.
	Shown func(*timeline.Call) bool
	Paths bool // critical paths are shown: the timeline has all calls and all work
}

// A Sink writes a file for each process.
type Sink struct {
	options   Options
	clock     clock
	gpus      []*gpu
	names     texts
	processes map[*timeline.Process]*processFile
	order     []*processFile
	rows      map[any]*row // by *timeline.Thread, *timeline.Stream or *timeline.Track
	remarks   []timeline.Event
	metrics   metrics
	gauges    activity.Gauges
	paths     *steppaths.Finder  // nil without Options.Paths
	metadata  *timeline.Metadata // of the log whose processes come, nil before the first
	shown     uint64             // see Slices
	err       error
}

// A processFile is a process of the timeline.
type processFile struct {
	*timeline.Process
	file    *file              // nil before the first event
	log     *timeline.Metadata // nil where it is not known
	devices map[uint32]*gpu
}

// New returns a sink.
func New(o Options) *Sink {
	return &Sink{
		options: o, names: newTexts(),
		processes: make(map[*timeline.Process]*processFile),
		rows:      make(map[any]*row),
	}
}

// Take writes events. It returns the first error of a file.
func (s *Sink) Take(events []timeline.Event) error {
	for _, e := range events {
		s.event(e)
		if s.err != nil {
			return s.err
		}
	}
	return s.failure()
}

// failure returns the first error of a file.
func (s *Sink) failure() error {
	for _, p := range s.order {
		if p.file != nil && p.file.err != nil {
			return p.file.err
		}
	}
	return nil
}

// Slices is the number of calls, pieces of work, spans and instants in all files so far.
func (s *Sink) Slices() uint64 { return s.shown }

func (s *Sink) event(e timeline.Event) {
	switch e := e.(type) {
	case *timeline.Slices:
		s.shown += uint64(len(e.List))
		s.slices(e)
		s.paths.Calls(e)
	case *timeline.WorkList:
		s.shown += uint64(len(e.List))
		s.workList(e)
		s.paths.Work(e)
	case *timeline.SpanBegin:
		s.shown++
		s.spanBegin(e)
		s.paths.Begin(e)
	case *timeline.SpanEnd:
		s.spanEnd(e)
		s.paths.End(e)
	case *timeline.Instant:
		s.shown++
		s.instant(e)
	case *timeline.CounterValue:
		if e.Counter.Sampled {
			s.gauges.Set(e)
		} else {
			s.counter(e)
		}
	case *timeline.Samples:
		s.metrics.writeSamples(s, e)
	case *timeline.States:
		s.paths.States(e)
	case *timeline.StackSamples:
		s.paths.Samples(e)
	case *timeline.Recording:
		s.clock = newClock(e)
		if s.options.Paths {
			s.paths = steppaths.New(e)
		}
	case *timeline.GPUs:
		for _, g := range e.List {
			s.gpus = append(s.gpus, newGPU(g))
		}
	case *timeline.Metadata:
		s.metadata = e
	case *timeline.Process:
		s.process(e)
	case *timeline.Context:
		if int(e.GPU) < len(s.gpus) {
			s.process(e.Process).devices[e.Device] = s.gpus[e.GPU]
		}
	case *timeline.Loss:
		lost := *e
		s.remarks = append(s.remarks, &lost)
	case *timeline.Note:
		note := *e
		s.remarks = append(s.remarks, &note)
	}
}

func (s *Sink) process(t *timeline.Process) *processFile {
	p := s.processes[t]
	if p == nil {
		p = &processFile{Process: t, log: s.metadata, devices: make(map[uint32]*gpu)}
		s.processes[t] = p
		s.order = append(s.order, p)
	}
	return p
}

// file returns the file of a process; nil if it cannot be opened.
func (s *Sink) file(t *timeline.Process) *file {
	p := s.process(t)
	if p.file == nil && s.err == nil {
		out, err := s.options.Open(t)
		if err != nil {
			s.err = err
			return nil
		}
		p.file = newFile(out, s.clock, p)
	}
	return p.file
}

func (s *Sink) counter(v *timeline.CounterValue) {
	f := s.file(v.Counter.Process)
	if f == nil {
		return
	}
	o := f.begin("C", "memory", v.Counter.Name, f.process.PID, f.process.PID, v.Time)
	o.begin("args")
	o.uint("bytes", min(v.Value, math.MaxInt64))
	f.endArgs(&o)
}

// End writes the rest of a complete timeline.
func (s *Sink) End(err error) error {
	if err != nil {
		return nil
	}
	for v := range s.gauges.Values {
		s.counter(v)
	}
	if note := s.gauges.Note(); note != nil {
		s.remarks = append(s.remarks, note)
	}
	s.metrics.finish(s)
	s.writePaths()
	opened := 0
	for _, p := range s.order {
		if p.file != nil {
			opened++
		}
	}
	if opened == 0 {
		s.empty()
	}
	s.writeRemarks()
	for _, p := range s.order {
		if p.file != nil && s.err == nil {
			s.err = p.file.finish(p.devices)
		}
	}
	return s.err
}

// empty opens the file of a timeline without events.
func (s *Sink) empty() {
	if len(s.order) == 0 {
		s.process(new(timeline.Process))
	}
	s.file(s.order[0].Process)
}
