package live

import (
	"slices"
	"time"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// Options are the options of a sink.
type Options struct {
	Interval time.Duration // length of an interval; 0 means a second
	// Report is called with the report of each interval, in order. The report is the callee's.
	Report func(*Report)
}

// settle is the time, in ns, that the timeline must be known beyond the end of an interval.
const settle = 1e9

// A Sink counts the events of a timeline.
type Sink struct {
	report    func(*Report)
	intervals intervals
	realtime  uint64 // at the start of the recording; 0 when not known
	all       Figures

	kernels, functions, copies, errors, losses, lines rows
	framed                                            bool // a call has a Python frame

	ofShape    query.Cache[*timeline.Shape, *row]
	ofFunction query.Cache[*timeline.Function, *function]
	ofPython   query.Cache[*timeline.Python, *row]
	launching  map[*timeline.Thread]int32 // depth of the open launching call
	devices    *activity.Devices
	gpus       []*gpu
	memory     map[*timeline.Counter]uint64
	host       Memory
	sensed     map[uint32]*sensors // by GPU
	doings     map[*timeline.Thread]*doing
	owners     activity.Owners
}

// A function is what is known of a function.
type function struct {
	row      *row
	launches bool
}

// New returns a sink.
func New(o Options) *Sink {
	length := uint64(o.Interval)
	if length == 0 {
		length = uint64(time.Second)
	}
	return &Sink{
		devices: activity.New(activity.Options{Window: window}),
		report:  o.Report, intervals: intervals{length: length},
		kernels: newRows(kernelName), functions: newRows(same), copies: newRows(same), errors: newRows(same),
		losses: newRows(same), lines: newRows(same), ofShape: make(query.Cache[*timeline.Shape, *row]),
		ofFunction: make(query.Cache[*timeline.Function, *function]), ofPython: make(query.Cache[*timeline.Python, *row]),
		launching: make(map[*timeline.Thread]int32), memory: make(map[*timeline.Counter]uint64),
		sensed: make(map[uint32]*sensors), doings: make(map[*timeline.Thread]*doing), owners: activity.NewOwners(),
	}
}

// Take takes events.
func (s *Sink) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Slices:
			s.calls(e)
		case *timeline.WorkList:
			s.work(e)
		case *timeline.States:
			s.states(e)
		case *timeline.StackSamples:
			s.ran(e)
		case *timeline.CounterValue:
			s.counter(e)
		case *timeline.Samples:
			s.samples(e)
		case *timeline.Loss:
			i := s.intervals.at(e.Time)
			i.Lost = sketch.Sum(i.Lost, e.Count)
			i.count(s.losses.Of(e.Cause), Count{N: e.Count})
		case *timeline.GPUs:
			for _, g := range e.List {
				s.gpu(g.Index).name = g.Name
			}
		case *timeline.Recording:
			s.begin(e)
		case *timeline.Known:
			s.known(e.Until)
		}
	}
	return nil
}

// End closes the intervals that have events.
func (s *Sink) End(err error) error {
	if err != nil {
		return nil
	}
	for _, g := range s.gpus {
		g.device.Finish()
	}
	for len(s.intervals.open) > 0 {
		s.close()
	}
	return nil
}

func (s *Sink) begin(r *timeline.Recording) {
	s.intervals.start = r.Start
	if r.Monotonic != 0 {
		s.realtime = r.Realtime - (r.Monotonic - r.Start)
	}
}

// known closes the intervals of which everything is known.
func (s *Sink) known(until uint64) {
	l := &s.intervals
	at := until - min(until, settle)
	for _, g := range s.gpus {
		g.device.Settle(at)
	}
	full := l.span(max(at, l.start)) // intervals that have passed
	for l.closed < full && (len(l.open) > 0 || full-l.closed <= maxOpen) {
		s.close()
	}
	l.skip(full)
}

// close closes the first open interval and reports it.
func (s *Sink) close() {
	l := &s.intervals
	number := l.closed
	i := l.next()
	s.all.add(&i.Figures)
	r := &Report{From: l.begin(number), To: l.end(number), Now: i.Figures, All: s.all, Host: s.host,
		Kernels: s.kernels.close(i.rows), Functions: s.functions.close(i.rows), Copies: s.copies.close(i.rows),
		Errors: s.errors.close(i.rows), Losses: s.losses.close(i.rows)}
	if lines := s.lines.close(i.rows); s.framed {
		r.Lines = lines
	}
	if s.realtime != 0 {
		r.Time = time.Unix(0, int64(s.realtime+r.To))
	}
	for _, g := range s.gpus {
		of := g.close(l, number)
		of.Sensors = s.sensed[g.index].close(l.start + l.end(number))
		of.Thread, of.Idle = g.thread, s.idle(g, l.start+l.begin(number), l.start+l.end(number))
		r.GPUs = append(r.GPUs, of)
	}
	if s.report != nil {
		s.report(r)
	}
}

// calls takes calls of a thread.
func (s *Sink) calls(e *timeline.Slices) {
	d := s.doing(e.Thread)
	for i := range e.List {
		sl := &e.List[i]
		f := s.function(sl.Function)
		interval := s.intervals.at(sl.End)
		if s.launches(e.Thread, sl, f) {
			interval.Launches++
			if !sl.HasWork() && sl.Kernel != nil { // GPU work is not recorded
				interval.count(s.kernels.Of(sl.Kernel.Name), Count{N: 1})
			}
		}
		if sl.Depth > 0 {
			continue
		}
		d.until = max(d.until, sl.End)
		if !noInstant(sl.Start, sl.End) {
			d.set(sl.Start, sl.End, func(m *moment) { m.call = f })
		}
		took := sl.End - min(sl.Start, sl.End)
		interval.Calls++
		interval.CallTime = sketch.Sum(interval.CallTime, took)
		interval.count(f.row, Count{N: 1, Time: took})
		if sl.Failed() {
			interval.Failed++
			interval.count(s.errors.Of(sl.Name+": "+sl.ErrorName()), Count{N: 1})
		}
	}
}

// launches reports whether a call launches a kernel or a graph, and no call around it does.
func (s *Sink) launches(t *timeline.Thread, sl *timeline.Slice, f *function) bool {
	if depth, within := s.launching[t]; within {
		if sl.Depth > depth {
			return false
		}
		delete(s.launching, t)
	}
	if f.launches {
		s.launching[t] = sl.Depth
	}
	return f.launches
}

func (s *Sink) function(of *timeline.Function) *function {
	return s.ofFunction.Of(of, func() *function {
		t := cudaapi.TraitsOf(of.Name)
		return &function{s.functions.Of(of.Name), t.Launches || t.LaunchesGraph}
	})
}

// work takes work of a stream.
func (s *Sink) work(e *timeline.WorkList) {
	g := s.gpu(e.Stream.Context.GPU)
	for i := range e.List {
		w := &e.List[i]
		interval := s.intervals.at(timeline.End(w.Start, w.Dur))
		interval.GPUTime = sketch.Sum(interval.GPUTime, w.Dur)
		interval.count(s.line(&w.Call), Count{N: 1, Time: w.Dur})
		switch w.Kind {
		case timeline.MemcpyWork:
			interval.Copies++
			m := &w.Shape.Memcpy
			interval.count(s.copies.Of(cudaapi.MemcpyKindName(m.CopyKind)), Count{1, w.Dur, m.Bytes})
		case timeline.MemsetWork:
			interval.Memsets++
		default:
			interval.Kernels++
			interval.count(s.ofShape.Of(w.Shape, func() *row { return s.kernels.Of(w.Shape.Kernel.Name) }),
				Count{N: 1, Time: w.Dur})
		}
		g.launchedBy(w.Call.Thread)
		if !w.Untimed {
			g.countWork(&s.intervals, w)
		}
	}
}

// line returns the row of the Python line of a call, or of what stands for it.
func (s *Sink) line(c *timeline.Call) *row {
	if c.Python == nil {
		return s.lines.Of(c.Thread.NoPython())
	}
	s.framed = true
	return s.ofPython.Of(c.Python, func() *row { return s.lines.Of(c.Python.Own().Text()) })
}

// maxGPUs bounds the GPUs. The first one has what is of others.
const maxGPUs = 256

func (s *Sink) gpu(index uint32) *gpu {
	i, found := slices.BinarySearchFunc(s.gpus, index, func(g *gpu, index uint32) int { return int(g.index) - int(index) })
	switch {
	case found:
	case len(s.gpus) >= maxGPUs:
		return s.gpus[0]
	default:
		s.gpus = slices.Insert(s.gpus, i, s.newGPU(index))
	}
	return s.gpus[i]
}

// counter takes the value of a counter of memory.
func (s *Sink) counter(e *timeline.CounterValue) {
	of := &s.host
	switch {
	case e.Counter.Host:
	case e.Counter.Device:
		of = &s.gpu(e.Counter.GPU).memory
	default:
		return
	}
	of.Live += e.Value - s.memory[e.Counter]
	of.Peak = max(of.Peak, of.Live)
	if s.memory[e.Counter] = e.Value; e.Value == 0 {
		delete(s.memory, e.Counter)
	}
}
