// Package timelinetest has a sink for tests. The sink keeps a timeline, checks its order, and
// shows it as text.
package timelinetest

import (
	"cmp"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Timeline has all events that a sink was given, by track.
type Timeline struct {
	Recording *timeline.Recording
	GPUs      []timeline.GPU
	Metadata  []*timeline.Metadata
	Processes []*ProcessTracks
	Samples   []*Series
	Users     []timeline.GPUUser
	Losses    []timeline.Loss
	Hangs     []timeline.Hang
	Remarks   []Remark // losses and notes in the order of arrival
}

// ProcessTracks are the tracks of a process.
type ProcessTracks struct {
	*timeline.Process
	Threads     []*Thread // main thread first, then by number
	Tracks      []*Track
	Counters    []*Counter
	Contexts    []*timeline.Context
	Streams     []*Stream
	Allocations []timeline.Allocation
	Refused     []timeline.OutOfMemory
	TorchBlocks []timeline.TorchBlock
}

// A Thread has the calls of a thread, in pre-order, and the tracks beside them.
type Thread struct {
	*timeline.Thread
	Slices []timeline.Slice
	Tracks []*Track
	States []timeline.State
	Stacks []timeline.StackSample
}

// A Track has spans.
type Track struct {
	*timeline.Track
	Spans []Span
}

// A Span is a span on a track.
type Span struct {
	timeline.Span
	Instant bool
}

// A Counter has the values of a counter.
type Counter struct {
	*timeline.Counter
	Points []Point
}

// A Point is a value of a counter from a time on.
type Point struct{ Time, Value uint64 }

// A Stream has the work of a stream, by start.
type Stream struct {
	*timeline.Stream
	Work []timeline.Work
}

// A Series has the samples of a set of metrics.
type Series struct {
	*timeline.MetricSet
	List []timeline.Sample
	Work timeline.Extent
}

// A Remark is a loss or a note.
type Remark struct {
	Time uint64
	Text string
}

// A Collector is a sink that makes a Timeline. It fails the test when slices do not nest, when
// a track is not in the order of time, or when an event refers to a later one.
type Collector struct {
	t         testing.TB
	tl        Timeline
	processes map[*timeline.Process]*ProcessTracks
	threads   map[*timeline.Thread]*Thread
	tracks    map[*timeline.Track]*Track
	counters  map[*timeline.Counter]*Counter
	streams   map[*timeline.Stream]*Stream
	open      map[any]*nesting
	ended     bool
}

// A nesting has the ends of the slices that are open on a track.
type nesting struct {
	ends []uint64
	last uint64
}

// NewCollector returns a collector.
func NewCollector(t testing.TB) *Collector {
	return &Collector{t: t, processes: make(map[*timeline.Process]*ProcessTracks),
		threads: make(map[*timeline.Thread]*Thread), tracks: make(map[*timeline.Track]*Track),
		counters: make(map[*timeline.Counter]*Counter),
		streams:  make(map[*timeline.Stream]*Stream), open: make(map[any]*nesting)}
}

// Take takes events.
func (c *Collector) Take(events []timeline.Event) error {
	for _, e := range events {
		c.event(e)
	}
	return nil
}

// End ends the timeline.
func (c *Collector) End(err error) error {
	c.ended = true
	return err
}

func (c *Collector) event(e timeline.Event) {
	if _, first := e.(*timeline.Recording); !first && c.tl.Recording == nil {
		c.t.Fatalf("%T comes before the recording", e)
	}
	switch e := e.(type) {
	case *timeline.Recording:
		c.tl.Recording = e
	case *timeline.GPUs:
		c.tl.GPUs = e.List
	case *timeline.Metadata:
		c.tl.Metadata = append(c.tl.Metadata, e)
	case *timeline.Process:
		c.processes[e] = &ProcessTracks{Process: e}
		c.tl.Processes = append(c.tl.Processes, c.processes[e])
	case *timeline.Context:
		p := c.process(e.Process)
		p.Contexts = append(p.Contexts, e)
	case *timeline.Stream:
		p := c.process(e.Context.Process)
		c.streams[e] = &Stream{Stream: e}
		p.Streams = append(p.Streams, c.streams[e])
	case *timeline.Thread:
		c.thread(e)
	case *timeline.Loss:
		c.tl.Losses = append(c.tl.Losses, *e)
		c.tl.Remarks = append(c.tl.Remarks, Remark{e.Time, LossText(e)})
	case *timeline.GPUUser:
		c.tl.Users = append(c.tl.Users, *e)
	case *timeline.Hang:
		c.tl.Hangs = append(c.tl.Hangs, *e)
	case *timeline.Note:
		c.tl.Remarks = append(c.tl.Remarks, Remark{e.Time, e.Text})
	default:
		c.tracked(e)
	}
}

// tracked takes the events that belong to tracks.
func (c *Collector) tracked(e timeline.Event) {
	switch e := e.(type) {
	case *timeline.Slices:
		c.slices(e)
	case *timeline.ThreadEnd:
		c.nesting(e.Thread).ends = nil
	case *timeline.WorkList:
		s := c.streams[e.Stream]
		if s == nil {
			c.t.Fatalf("work of a stream that has not come: %+v", e.Stream)
		}
		s.Work = append(s.Work, e.List...)
	case *timeline.SpanBegin:
		c.span(e.Track, Span{Span: e.Span})
		c.begin(c.nesting(e.Track), e.Start, e.End, !e.Open)
	case *timeline.SpanEnd:
		c.end(c.nesting(e.Track), e.End)
		c.late(e)
	case *timeline.Instant:
		c.span(e.Track, Span{Span: e.Span, Instant: true})
		n := c.nesting(e.Track)
		c.begin(n, e.Start, e.End, true)
		n.ends = n.ends[:len(n.ends)-1]
	case *timeline.CounterValue:
		x := c.counter(e.Counter)
		x.Points = append(x.Points, Point{e.Time, e.Value})
	case *timeline.Samples:
		c.samples(e)
	case *timeline.States:
		t := c.thread(e.Thread)
		for _, x := range e.List {
			if n := len(t.States); x.Start >= x.End || n > 0 && x.Start < t.States[n-1].End {
				c.t.Fatalf("a state %+v follows %+v", x, t.States)
			}
			t.States = append(t.States, x)
		}
	case *timeline.StackSamples:
		t := c.thread(e.Thread)
		for _, x := range e.List {
			if n := len(t.Stacks); n > 0 && x.Time < t.Stacks[n-1].Time {
				c.t.Fatalf("a stack %+v follows %+v", x, t.Stacks)
			}
			t.Stacks = append(t.Stacks, x)
		}
	case *timeline.Allocation:
		p := c.process(e.Process)
		p.Allocations = append(p.Allocations, *e)
	case *timeline.OutOfMemory:
		p := c.process(e.Process)
		p.Refused = append(p.Refused, *e)
	case *timeline.TorchBlock:
		p := c.process(e.Process)
		p.TorchBlocks = append(p.TorchBlocks, *e)
	default:
		c.t.Fatalf("an event of unknown type %T", e)
	}
}

// samples checks that the samples of a set are in order and do not overlap.
func (c *Collector) samples(e *timeline.Samples) {
	i := slices.IndexFunc(c.tl.Samples, func(s *Series) bool { return s.MetricSet == e.Set })
	if i < 0 {
		i = len(c.tl.Samples)
		c.tl.Samples = append(c.tl.Samples, &Series{MetricSet: e.Set, Work: e.Work})
	}
	s := c.tl.Samples[i]
	for _, x := range e.List {
		if n := len(s.List); n > 0 && x.Start < s.List[n-1].End || x.Start > x.End || len(x.Values) != len(e.Set.Metrics) {
			c.t.Fatalf("a sample %+v follows %+v", x, s.List)
		}
		s.List = append(s.List, x)
	}
}

func (c *Collector) process(p *timeline.Process) *ProcessTracks {
	of := c.processes[p]
	if of == nil {
		c.t.Fatalf("an event of a process that has not come: %+v", p)
	}
	return of
}

func (c *Collector) nesting(track any) *nesting {
	n := c.open[track]
	if n == nil {
		n = &nesting{}
		c.open[track] = n
	}
	return n
}

// begin checks a slice that begins. Its end may not be known.
func (c *Collector) begin(o *nesting, start, end uint64, known bool) {
	if n := len(o.ends); known && (n > 0 && end > o.ends[n-1] || start > end) || start < o.last {
		c.t.Fatalf("a slice from %d to %d, after %d, within ends %d", start, end, o.last, o.ends)
	}
	if !known {
		end = timeline.Never
	}
	o.ends, o.last = append(o.ends, end), start
}

func (c *Collector) end(o *nesting, at uint64) {
	n := len(o.ends) - 1
	if n < 0 || o.ends[n] != timeline.Never && at != o.ends[n] || at < o.last {
		c.t.Fatalf("a slice ends at %d instead of %d", at, o.ends)
	}
	o.ends, o.last = o.ends[:n], at
}

func (c *Collector) slices(e *timeline.Slices) {
	th, o := c.thread(e.Thread), c.nesting(e.Thread)
	for i := range e.List {
		sl := &e.List[i]
		for n := len(o.ends); n > int(sl.Depth); n-- {
			c.end(o, o.ends[n-1])
		}
		c.begin(o, sl.Start, sl.End, true)
		th.Slices = append(th.Slices, clone(sl))
	}
}

func (c *Collector) thread(t *timeline.Thread) *Thread {
	th := c.threads[t]
	if th == nil {
		th = &Thread{Thread: t}
		c.threads[t] = th
		p := c.process(t.Process)
		p.Threads = append(p.Threads, th)
	}
	return th
}

func (c *Collector) span(t *timeline.Track, sp Span) {
	track := c.tracks[t]
	if track == nil {
		track = &Track{Track: t}
		c.tracks[t] = track
		if t.Thread != nil {
			th := c.thread(t.Thread)
			th.Tracks = append(th.Tracks, track)
		} else {
			p := c.process(t.Process)
			p.Tracks = append(p.Tracks, track)
		}
	}
	if sp.Args = sp.Facts(); sp.Depth != int32(len(c.nesting(t).ends)) {
		c.t.Fatalf("a span of depth %d within %d others: %+v", sp.Depth, len(c.nesting(t).ends), sp)
	}
	track.Spans = append(track.Spans, sp)
}

// late gives a span that has ended what was not known at its beginning.
func (c *Collector) late(e *timeline.SpanEnd) {
	list := c.tracks[e.Track].Spans
	for i := len(list) - 1; i >= 0; i-- {
		if sp := &list[i]; sp.Depth == e.Depth && !sp.Instant {
			if sp.Open {
				sp.Open, sp.End = false, e.End
			}
			sp.Args = append(slices.Clip(sp.Args), e.LateFacts()...)
			return
		}
	}
}

func (c *Collector) counter(x *timeline.Counter) *Counter {
	counter := c.counters[x]
	if counter == nil {
		counter = &Counter{Counter: x}
		c.counters[x] = counter
		p := c.process(x.Process)
		p.Counters = append(p.Counters, counter)
	}
	return counter
}

// Timeline puts the tracks in order, and numbers work by stream and time.
func (c *Collector) Timeline() *Timeline {
	if !c.ended {
		c.t.Fatal("the timeline has not ended")
	}
	for _, o := range c.open {
		if len(o.ends) > 0 {
			c.t.Fatalf("slices that do not end: %d", o.ends)
		}
	}
	slices.SortStableFunc(c.tl.Samples, func(a, b *Series) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), -cmp.Compare(a.Source, b.Source))
	})
	ids := make(map[uint64]uint64)
	for _, p := range c.tl.Processes {
		p.sort()
		for _, s := range p.Streams {
			for i := range s.Work {
				ids[s.Work[i].ID] = uint64(len(ids) + 1)
				s.Work[i].ID = ids[s.Work[i].ID]
			}
		}
	}
	for _, p := range c.tl.Processes {
		for _, th := range p.Threads {
			for i := range th.Slices {
				renumber(&th.Slices[i], ids)
			}
		}
	}
	return &c.tl
}

// clone copies a slice, since the pipeline will reuse the original.
func clone(sl *timeline.Slice) timeline.Slice {
	c := *sl
	c.Forget()
	for _, id := range sl.Work() {
		c.AddWork(id)
	}
	for _, w := range sl.Waits() {
		c.AddWait(w)
	}
	return c
}

// renumber replaces the IDs of a cloned slice's work by the new numbers.
func renumber(sl *timeline.Slice, ids map[uint64]uint64) {
	work := sl.Work()
	for i, id := range work {
		work[i] = ids[id]
	}
	waits := sl.Waits()
	for i := range waits {
		waits[i].Work = ids[waits[i].Work]
	}
}

func (p *ProcessTracks) sort() {
	slices.SortFunc(p.Threads, func(a, b *Thread) int {
		if a.Main != b.Main {
			if a.Main {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.TID, b.TID)
	})
	for _, th := range p.Threads {
		sortTracks(th.Tracks)
	}
	sortTracks(p.Tracks)
	slices.SortFunc(p.Streams, func(a, b *Stream) int {
		return cmp.Or(cmp.Compare(a.Context.Device, b.Context.Device), cmp.Compare(a.Context.ID, b.Context.ID),
			cmp.Compare(a.ID, b.ID))
	})
	for _, s := range p.Streams {
		slices.SortStableFunc(s.Work, func(a, b timeline.Work) int { return cmp.Compare(a.Start, b.Start) })
	}
	slices.SortFunc(p.Counters, func(a, b *Counter) int { return cmp.Compare(a.Name, b.Name) })
}

func sortTracks(list []*Track) {
	slices.SortStableFunc(list, func(a, b *Track) int {
		return cmp.Or(-cmp.Compare(a.Category, b.Category), cmp.Compare(a.Title(), b.Title()))
	})
}
