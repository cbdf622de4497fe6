package convert

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// timeline is all that a sink was given, by track, for tests that look at the whole.
type timeline struct {
	GPUs      []GPU
	Processes []*processTracks
	Marks     []Mark
	Summary   Summary
}

type processTracks struct {
	*Process
	Threads  []*threadTracks // main thread first, then by number
	Tracks   []*spanTrack
	Counters []*counterTrack
	Queues   []*queueTrack
}

type threadTracks struct {
	*Thread
	Slices []Slice // in pre-order
	Tracks []*spanTrack
}

type spanTrack struct {
	*Track
	Spans []nestedSpan
}

type nestedSpan struct {
	Span
	Depth int
}

type counterTrack struct {
	*Counter
	Points []struct{ Time, Value uint64 }
}

type queueTrack struct {
	*Queue
	Work []Work // by start
}

// A collector is a sink that makes a timeline, and checks on the way that slices nest and
// that each track is in the order of time.
type collector struct {
	t         testing.TB
	tl        timeline
	processes map[*Process]*processTracks
	threads   map[*Thread]*threadTracks
	tracks    map[*Track]*spanTrack
	counters  map[*Counter]*counterTrack
	queues    map[*Queue]*queueTrack
	open      map[any]*openSlices
	thread    *threadTracks
	track     *spanTrack
	counter   *counterTrack
	queue     *queueTrack
	chosen    *openSlices
}

// openSlices are those of a track, by their ends.
type openSlices struct {
	ends []uint64
	last uint64
}

func newCollector(t testing.TB) *collector {
	return &collector{t: t, processes: make(map[*Process]*processTracks), threads: make(map[*Thread]*threadTracks),
		tracks: make(map[*Track]*spanTrack), counters: make(map[*Counter]*counterTrack), queues: make(map[*Queue]*queueTrack),
		open: make(map[any]*openSlices)}
}

func (c *collector) choose(track any) {
	if c.open[track] == nil {
		c.open[track] = &openSlices{}
	}
	c.chosen = c.open[track]
}

// begin checks a slice that begins, of which the end may be 0, not known yet.
func (c *collector) begin(start, end uint64, known bool) {
	o := c.chosen
	if n := len(o.ends); known && (n > 0 && end > o.ends[n-1] || start > end) || start < o.last {
		c.t.Fatalf("a slice from %d to %d, after %d, within ends %d", start, end, o.last, o.ends)
	}
	if !known {
		end = never
	}
	o.ends, o.last = append(o.ends, end), start
}

func (c *collector) GPUs(gpus []GPU) { c.tl.GPUs = gpus }

func (c *collector) Process(p *Process) {
	c.processes[p] = &processTracks{Process: p}
	c.tl.Processes = append(c.tl.Processes, c.processes[p])
}

func (c *collector) Thread(t *Thread) {
	c.choose(t)
	c.thread = c.threadOf(t)
}

func (c *collector) threadOf(t *Thread) *threadTracks {
	th := c.threads[t]
	if th == nil {
		th = &threadTracks{Thread: t}
		c.threads[t] = th
		p := c.processes[t.Process]
		p.Threads = append(p.Threads, th)
	}
	return th
}

func (c *collector) Begin(sl *Slice) {
	c.begin(sl.Start, sl.End, true)
	kept := *sl
	if sl.links != nil {
		kept.links = &links{slices.Clone(sl.links.work), slices.Clone(sl.links.waits)}
	}
	c.thread.Slices = append(c.thread.Slices, kept)
}

func (c *collector) End(ts uint64) {
	o := c.chosen
	n := len(o.ends) - 1
	if n < 0 || o.ends[n] != never && ts != o.ends[n] || ts < o.last {
		c.t.Fatalf("a slice ends at %d instead of %d", ts, o.ends)
	}
	o.ends, o.last = o.ends[:n], ts
}

func (c *collector) Track(t *Track) {
	c.choose(t)
	c.track = c.tracks[t]
	if c.track != nil {
		return
	}
	c.track = &spanTrack{Track: t}
	c.tracks[t] = c.track
	if t.Thread != nil {
		th := c.threadOf(t.Thread)
		th.Tracks = append(th.Tracks, c.track)
		return
	}
	p := c.processes[t.Process]
	p.Tracks = append(p.Tracks, c.track)
}

func (c *collector) BeginSpan(sp *Span) {
	c.track.Spans = append(c.track.Spans, nestedSpan{*sp, len(c.chosen.ends)})
	c.begin(sp.Start, sp.End, !sp.open)
}

func (c *collector) Instant(sp *Span) {
	c.track.Spans = append(c.track.Spans, nestedSpan{*sp, len(c.chosen.ends)})
	c.begin(sp.Start, sp.End, true)
	c.chosen.ends = c.chosen.ends[:len(c.chosen.ends)-1]
}

func (c *collector) Counter(x *Counter) {
	c.counter = c.counters[x]
	if c.counter == nil {
		c.counter = &counterTrack{Counter: x}
		c.counters[x] = c.counter
		p := c.processes[x.Process]
		p.Counters = append(p.Counters, c.counter)
	}
}

func (c *collector) Value(ts, v uint64) {
	c.counter.Points = append(c.counter.Points, struct{ Time, Value uint64 }{ts, v})
}

func (c *collector) Queue(q *Queue) {
	c.queue = c.queues[q]
	if c.queue == nil {
		c.queue = &queueTrack{Queue: q}
		c.queues[q] = c.queue
		p := c.processes[q.Process]
		p.Queues = append(p.Queues, c.queue)
	}
}

func (c *collector) Work(w *Work) { c.queue.Work = append(c.queue.Work, *w) }

func (c *collector) Mark(m *Mark) { c.tl.Marks = append(c.tl.Marks, *m) }

// timeline puts the tracks in order, and numbers work by queue and time.
func (c *collector) timeline() *timeline {
	for _, o := range c.open {
		if len(o.ends) > 0 {
			c.t.Fatalf("slices that do not end: %d", o.ends)
		}
	}
	ids := make(map[uint64]uint64)
	for _, p := range c.tl.Processes {
		p.sort()
		for _, q := range p.Queues {
			for i := range q.Work {
				ids[q.Work[i].ID] = uint64(len(ids) + 1)
				q.Work[i].ID = ids[q.Work[i].ID]
			}
		}
	}
	for _, p := range c.tl.Processes {
		for _, th := range p.Threads {
			for i := range th.Slices {
				renumber(th.Slices[i].Work(), ids)
				renumber(th.Slices[i].Waits(), ids)
			}
		}
	}
	return &c.tl
}

func renumber(list []uint64, ids map[uint64]uint64) {
	for i, id := range list {
		list[i] = ids[id]
	}
}

func (p *processTracks) sort() {
	slices.SortFunc(p.Threads, func(a, b *threadTracks) int {
		return cmp.Or(compareBool(b.Main, a.Main), cmp.Compare(a.TID, b.TID))
	})
	for _, th := range p.Threads {
		sortTracks(th.Tracks)
	}
	sortTracks(p.Tracks)
	slices.SortFunc(p.Queues, func(a, b *queueTrack) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Context, b.Context), cmp.Compare(a.Stream, b.Stream))
	})
	for _, q := range p.Queues {
		slices.SortStableFunc(q.Work, func(a, b Work) int { return cmp.Compare(a.Start, b.Start) })
	}
	slices.SortFunc(p.Counters, func(a, b *counterTrack) int { return cmp.Compare(a.Name, b.Name) })
}

func sortTracks(list []*spanTrack) {
	slices.SortStableFunc(list, func(a, b *spanTrack) int {
		return cmp.Or(-cmp.Compare(a.Category, b.Category), cmp.Compare(a.Name, b.Name))
	})
}

// timelineOf makes the timeline of a log.
func timelineOf(t testing.TB, open opener) *timeline {
	t.Helper()
	c := newCollector(t)
	sum := build(t, open, c)
	tl := c.timeline()
	tl.Summary = sum
	return tl
}

// build gives a log to a sink.
func build(t testing.TB, open opener, s Sink) Summary {
	t.Helper()
	j := newJob(Options{}, []string{"test"}, []opener{open})
	if err := j.read(); err != nil {
		t.Fatal(err)
	}
	all, err := j.send(s, func(uint64) {})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// trace converts a log into a trace.
func trace(t testing.TB, open opener, o Options) []byte {
	t.Helper()
	var out bytes.Buffer
	traceTo(t, open, o, &out)
	return out.Bytes()
}

func traceTo(t testing.TB, open opener, o Options, w io.Writer) Summary {
	t.Helper()
	j := newJob(o, []string{"test"}, []opener{open})
	if err := j.read(); err != nil {
		t.Fatal(err)
	}
	all, err := j.run(w)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// inMemory opens a log again and again.
func inMemory(data []byte) opener {
	return func() (*tracelog.Reader, error) {
		return tracelog.NewReader(bytes.NewReader(data), int64(len(data)), "test")
	}
}
