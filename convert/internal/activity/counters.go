package activity

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A Counter is a number that changes over time. It belongs to a GPU, to a process, to a stream, or to
// the recording.
type Counter struct {
	Name    string
	Unit    string            // "%", "GB/s"
	Process *timeline.Process // nil for a counter of a GPU, or of the recording
	Stream  *timeline.Stream  // nil unless it belongs to a stream
	GPU     uint32
	OnGPU   bool // it belongs to GPU
	Samples []Sample
}

// Counters sample what GPUs, streams and processes do over a timeline, from its calls, GPU work and losses: for each
// GPU the share of busy time, kernels in flight and the throughput of copies by direction; for each process launches a
// second; for each stream the work that is launched and has not begun; and the records that were lost. A value is the
// mean over the time up to the next one; see Zoom.
//
// A counter has at most [MaxSamples] samples, and fewer where there are few events. Memory does not grow with the
// timeline. [Gauges] do the same for counters whose values come with the timeline.
type Counters struct {
	devices   *Devices
	classes   bool // of work are told apart
	gpus      []*gpu
	processes []*processLaunches
	streams   []*stream
	byStream  map[*timeline.Stream]*stream
	byProcess map[*timeline.Process]*processLaunches
	losses    []Sample
}

type gpu struct {
	index          uint32
	busy, inFlight series
	copies         map[uint32]*series // by CUpti_ActivityMemcpyKind
	device         *Device
}

type processLaunches struct {
	*timeline.Process
	launches series
}

type stream struct {
	*timeline.Stream
	gpu    *gpu
	lane   *Lane
	queued *series // nil beyond maxStreams
}

// maxStreams bounds the streams with a counter.
const maxStreams = 256

// Busy is the name of the counter of a GPU's busy share.
const Busy = "busy"

// window is the number of pieces of work of a GPU that wait for earlier work of other streams.
const window = 1 << 15

// NewCounters returns counters without events. If classes of work are told apart, the devices have slices of the
// processes.
func NewCounters(classes bool) *Counters {
	return &Counters{devices: New(Options{Window: window, Slices: classes}), classes: classes,
		byStream: make(map[*timeline.Stream]*stream), byProcess: make(map[*timeline.Process]*processLaunches)}
}

// Calls takes calls of a thread.
func (c *Counters) Calls(l *timeline.Slices) {
	p := c.byProcess[l.Thread.Process]
	if p == nil {
		p = &processLaunches{Process: l.Thread.Process}
		c.processes, c.byProcess[p.Process] = append(c.processes, p), p
	}
	for i := range l.List {
		sl := &l.List[i]
		if sl.Kernel != nil || sl.Launched != nil && sl.Launched.Kernel.Name != "" {
			p.launches.countEvent(sl.Start, timeline.End(sl.Start, 1), 1)
		}
	}
}

// Work takes work of a stream.
func (c *Counters) Work(l *timeline.WorkList) {
	s := c.stream(l.Stream)
	for i := range l.List {
		w := &l.List[i]
		if w.Untimed {
			continue
		}
		s.gpu.countWork(w)
		p := Piece{Start: w.Start, End: timeline.End(w.Start, w.Dur)}
		if c.classes {
			p.Class = ClassOf(w)
		}
		s.lane.Add(&p)
		if w.Call.Function != nil && s.queued != nil {
			s.queued.countEvent(w.Call.End, w.Start, 1)
		}
	}
}

func (c *Counters) stream(of *timeline.Stream) *stream {
	s := c.byStream[of]
	if s == nil {
		g := c.gpu(of.Context.GPU)
		s = &stream{Stream: of, gpu: g, lane: g.device.Lane(of)}
		if len(c.streams) < maxStreams {
			s.queued = new(series)
		}
		c.streams, c.byStream[of] = append(c.streams, s), s
	}
	return s
}

func (c *Counters) gpu(index uint32) *gpu {
	for _, g := range c.gpus {
		if g.index == index {
			return g
		}
	}
	g := &gpu{index: index, copies: make(map[uint32]*series)}
	g.device = c.devices.NewDevice(func(from, to uint64) { g.busy.spread(from, to, 1) })
	c.gpus = append(c.gpus, g)
	return g
}

func (g *gpu) countWork(w *timeline.Work) {
	end := timeline.End(w.Start, w.Dur)
	switch w.Kind {
	case timeline.KernelWork:
		g.inFlight.countEvent(w.Start, end, 1)
	case timeline.MemcpyWork:
		copies := g.copies[w.Shape.Memcpy.CopyKind]
		if copies == nil && len(g.copies) < maxStreams {
			copies = new(series)
			g.copies[w.Shape.Memcpy.CopyKind] = copies
		}
		if copies != nil {
			copies.countEvent(w.Start, end, float64(w.Shape.Memcpy.Bytes)/float64(max(w.Dur, 1)))
		}
	}
	if w.Start < end {
		g.busy.events++
	}
}

// Devices yields the GPUs by index.
func (c *Counters) Devices(yield func(gpu uint32, d *Device) bool) {
	slices.SortFunc(c.gpus, func(a, b *gpu) int { return cmp.Compare(a.index, b.index) })
	for _, g := range c.gpus {
		if !yield(g.index, g.device) {
			return
		}
	}
}

// Loss takes a loss.
func (c *Counters) Loss(l *timeline.Loss) {
	c.losses = append(c.losses, Sample{l.Time, float64(l.Count)})
}

// All returns the counters with a value other than 0. first and last are the bounds of the trace.
func (c *Counters) All(first, last uint64) (all []Counter) {
	add := func(k Counter, s *series, factor float64) {
		if k.Samples = s.samples(first, last, factor); len(k.Samples) > 0 {
			all = append(all, k)
		}
	}
	slices.SortFunc(c.gpus, func(a, b *gpu) int { return cmp.Compare(a.index, b.index) })
	for _, g := range c.gpus {
		g.device.Finish()
		of := func(name, unit string) Counter { return Counter{Name: name, Unit: unit, GPU: g.index, OnGPU: true} }
		add(of(Busy, "%"), &g.busy, 100)
		add(of("kernels in flight", "kernels"), &g.inFlight, 1)
		for _, kind := range slices.Sorted(maps.Keys(g.copies)) {
			add(of("copies "+cudaapi.MemcpyKindName(kind), "GB/s"), g.copies[kind], 1)
		}
	}
	for _, p := range c.processes {
		add(Counter{Name: "launches a second", Unit: "launches/s", Process: p.Process}, &p.launches, 1e9)
	}
	for _, s := range c.streams {
		if s.queued != nil {
			add(Counter{Name: "launch queue", Unit: "launches", Process: s.Context.Process, Stream: s.Stream,
				GPU: s.Context.GPU, OnGPU: true}, s.queued, 1)
		}
	}
	return append(all, c.lost(first, last)...)
}

// lost is the number of lost records so far, over time.
func (c *Counters) lost(first, last uint64) []Counter {
	if len(c.losses) == 0 {
		return nil
	}
	slices.SortStableFunc(c.losses, func(a, b Sample) int { return cmp.Compare(a.Time, b.Time) })
	k, total := Counter{Name: "records lost", Unit: "records", Samples: []Sample{{Time: first}}}, 0.0
	step := len(c.losses)/MaxSamples + 1
	for i, l := range c.losses {
		total += l.Value
		if i%step == step-1 || i == len(c.losses)-1 {
			k.Samples = append(k.Samples, Sample{max(first, min(l.Time, last)), total})
		}
	}
	return []Counter{k}
}

// rounded rounds a number to three digits, which compress better than all of them.
func rounded(v float64) float64 {
	if v == 0 {
		return 0
	}
	digits := int(math.Floor(math.Log10(math.Abs(v)))) - 2
	if digits >= 0 {
		unit := math.Pow10(digits)
		return math.Round(v/unit) * unit
	}
	unit := math.Pow10(-digits)
	return math.Round(v*unit) / unit
}
