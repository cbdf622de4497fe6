package join

import (
	"cmp"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/sampled"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// samples hand on sampled values in the order of time of each set.
type samples struct {
	catalog  *read.Catalog
	programs map[uint32][]*program
	out      *pipeline.Pipeline
	series   map[uint32]*series // by set
	order    []*series          // in the order of first sight
	spans    *spanOutput
	leftOut  uint64 // samples that were left out, see show
}

// A series is the samples of a set.
type series struct {
	sets    []*timeline.MetricSet // one a program of the process; one for a GPU; none for a set that is left out
	lows    read.Lows
	work    timeline.Extent
	waiting inOrder[tracelog.Sample]
	end     uint64 // of the latest sample
	program int    // of the samples in list
	list    []timeline.Sample
	values  []float64 // room for those of list

	main     *sampled.Set // main figures of a GPU, nil for other sets
	coverage timeline.Coverage
}

// mainMetrics are the metrics of a GPU that a summary of a log has.
var mainMetrics = []string{metric.NameSMActive, metric.NameGPMSMActive, metric.NameUtilization,
	metric.NamePower, metric.NameSMClock, metric.NameReasons}

// samplesPerEvent bounds the samples of an event.
const samplesPerEvent = 512

// sampleBefore is the order of samples: by start, the longer one first.
func sampleBefore(a, b *tracelog.Sample) bool {
	return a.Start < b.Start || a.Start == b.Start && a.Dur > b.Dur
}

func newSamples(c *read.Catalog, programs map[uint32][]*program, out *pipeline.Pipeline, spans *spanOutput) samples {
	return samples{catalog: c, programs: programs, out: out, spans: spans, series: make(map[uint32]*series)}
}

// find returns the series of a set.
func (s *samples) find(id uint32) *series {
	k := s.series[id]
	if k != nil {
		return k
	}
	k = &series{waiting: newInOrder(&s.spans.budget.Records, &s.spans.found.Late,
		func(r *tracelog.Sample) uint64 { return r.Start }, sampleBefore)}
	set := s.catalog.Metrics.Find(id)
	if set == nil || len(set.Metrics) == 0 {
		return k
	}
	s.series[id], s.order = k, append(s.order, k)
	k.lows = s.catalog.Watermarks.Set(set.PID, id)
	of := timeline.MetricSet{Source: metric.Source(set.Source), Interval: set.Interval, Metrics: set.Metrics}
	k.work = s.catalog.GPUs.ExtentOf(set.PID)
	if set.PID == 0 {
		if index, ok := s.catalog.Metrics.GPU(id); ok {
			k.work = s.catalog.GPUs.Extent(index)
			of.GPU, of.Users = index, s.users(index)
			k.sets = append(k.sets, &of)
			k.main, k.coverage = sampled.New(&of), timeline.Coverage{Least: s.catalog.First()}
		}
		return k
	}
	for _, p := range s.programs[set.PID] {
		one := of
		one.Process = p.out
		k.sets = append(k.sets, &one)
	}
	return k
}

// users are the processes of the log that used a GPU.
func (s *samples) users(gpu uint32) (users []timeline.Device) {
	for _, key := range s.catalog.GPUs.Keys(gpu) {
		for _, p := range s.programs[key.PID] {
			users = append(users, timeline.Device{Process: p.out, Number: key.Device})
		}
	}
	return users
}

// readSample queues the sample of a row.
func (s *samples) readSample(b *tracelog.Block, i int) {
	ids := b.Column("set")
	k := s.find(uint32(ids.At(i)))
	if len(k.sets) == 0 {
		return
	}
	var r tracelog.Sample
	r.Read(b, i)
	k.waiting.add(r)
}

// advance hands on the samples whose order is known; with all, all of them.
func (s *samples) advance(all bool) {
	for _, k := range s.order {
		k.waiting.drain(k.lows.Low(), all, func(r *tracelog.Sample) { s.show(k, r) })
		s.pass(k)
	}
}

// show hands on a sample. One that begins before the end of the sample before it (the clock fit of PM
// sampling moves) begins there; one that also ends before it is left out.
func (s *samples) show(k *series, r *tracelog.Sample) {
	end := timeline.End(r.Start, r.Dur)
	if end <= k.end {
		s.leftOut++
		return
	}
	r.Start, k.end = max(r.Start, k.end), end
	program := 0
	if len(k.sets) > 1 {
		program = s.catalog.Processes.Get(r.PID).Programs.At(r.Start)
	}
	if program != k.program || len(k.list) == samplesPerEvent {
		s.pass(k)
		k.program = program
	}
	k.appendSample(r)
}

// appendSample adds a sample to the list.
func (k *series) appendSample(r *tracelog.Sample) {
	metrics := k.sets[0].Metrics
	if cap(k.values)-len(k.values) < len(metrics) {
		k.values = make([]float64, 0, 64*len(metrics))
	}
	from := len(k.values)
	for i := range metrics {
		v, ok := metrics[i].Value(r.Values[i])
		if !ok {
			v = math.NaN()
		}
		k.values = append(k.values, v)
	}
	values := k.values[from:len(k.values):len(k.values)]
	k.list = append(k.list, timeline.Sample{Start: r.Start, End: k.end, Values: values})
	if k.main != nil {
		k.count(&k.list[len(k.list)-1])
	}
}

// count adds a sample to the main figures, as far as it lies in the time of GPU work.
func (k *series) count(x *timeline.Sample) {
	from, _ := k.coverage.Add(k.main.MetricSet, x)
	from, to := max(from, k.work.Start), min(x.End, k.work.End)
	if from >= to {
		return
	}
	for i, v := range x.Values {
		if slices.Contains(mainMetrics, k.main.Metrics[i].Name) {
			k.main.AddValue(i, v, to-from)
		}
	}
}

// figures are the main figures of the GPUs.
func (s *samples) figures() []sampled.GPU {
	var all []*sampled.Set
	for _, k := range s.order {
		if k.main != nil {
			all = append(all, k.main)
		}
	}
	slices.SortStableFunc(all, func(a, b *sampled.Set) int { return cmp.Or(cmp.Compare(a.GPU, b.GPU), a.Compare(b)) })
	return sampled.Summarize(all, s.catalog.Users())
}

// pass hands on the list of a series.
func (s *samples) pass(k *series) {
	if len(k.list) > 0 {
		s.out.Emit(&timeline.Samples{Set: k.sets[k.program], List: k.list, Work: k.work})
		k.list = nil
	}
}

// finish hands on everything left, at the end of the log, and says what was left out.
func (s *samples) finish(at uint64) {
	s.advance(true)
	if s.leftOut > 0 {
		text := figures.Count(s.leftOut, "sample of metrics", "samples of metrics")
		s.out.Emit(&timeline.Note{Time: at, Text: text + " left out: they end before the one in front of them"})
	}
}

// threadTimes hand on the states and the samples of threads, those of each thread in the order of time.
type threadTimes struct {
	catalog *read.Catalog
	program func(pid uint32, at uint64) *program
	out     *pipeline.Pipeline
	byKey   map[read.ThreadKey]*threadTime
	active  []*threadTime // those with something to come or to show
	blocks  map[blockKey]*timeline.Block
	spans   *spanOutput
	period  uint64 // of samples, 0 if unknown
}

// A threadTime is the states and samples of one thread.
type threadTime struct {
	key     read.ThreadKey
	lows    read.Lows
	states  inOrder[tracelog.ThreadState]
	samples inOrder[tracelog.ThreadSample]
	end     uint64 // of the latest state
	rests   bool   // it is not active
}

// A blockKey is what makes a Block.
type blockKey struct {
	call, on string
	holder   *timeline.Thread
	python   uint32
}

// maxBlocks bounds the reasons that states share. States for further reasons have each their own.
const maxBlocks = 1 << 16

func newThreadTimes(c *read.Catalog, program func(uint32, uint64) *program, out *pipeline.Pipeline,
	spans *spanOutput) threadTimes {
	t := threadTimes{catalog: c, program: program, out: out, spans: spans,
		byKey: make(map[read.ThreadKey]*threadTime), blocks: make(map[blockKey]*timeline.Block)}
	if rate := c.Number(tracelog.MetaSampleRate); rate > 0 {
		t.period = 1e9 / rate
	}
	return t
}

// find returns the times of a thread.
func (t *threadTimes) find(pid, tid uint32) *threadTime {
	key := read.ThreadKey{PID: pid, TID: tid}
	k := t.byKey[key]
	if k == nil {
		records, late := &t.spans.budget.Records, &t.spans.found.Late
		k = &threadTime{key: key, lows: t.catalog.Watermarks.ThreadTimes(pid, tid),
			states:  newInOrder(records, late, func(r *tracelog.ThreadState) uint64 { return r.Start }, nil),
			samples: newInOrder(records, late, func(r *tracelog.ThreadSample) uint64 { return r.Time }, nil)}
		t.byKey[key], k.rests = k, true
	}
	if k.rests {
		k.rests, t.active = false, append(t.active, k)
	}
	return k
}

// readState queues the state of a row.
func (t *threadTimes) readState(b *tracelog.Block, i int) {
	var r tracelog.ThreadState
	r.Read(b, i)
	if r.State >= tracelog.StateRunning && r.State <= tracelog.StateBlocked {
		t.find(r.PID, r.TID).states.add(r)
	}
}

// readSample queues the sample of a row.
func (t *threadTimes) readSample(b *tracelog.Block, i int) {
	var r tracelog.ThreadSample
	r.Read(b, i)
	t.find(r.PID, r.TID).samples.add(r)
}

// advance hands on what is known to be in order; with all, everything.
func (t *threadTimes) advance(all bool) {
	for _, k := range t.active {
		low := k.lows.Low()
		var states *timeline.States
		k.states.drain(low, all, func(r *tracelog.ThreadState) {
			s, ok := t.state(k, r)
			if !ok {
				return
			}
			thread := t.program(r.PID, r.Start).thread(r.TID)
			if states != nil && states.Thread != thread {
				t.out.Emit(states)
				states = nil
			}
			if states == nil {
				states = &timeline.States{Thread: thread}
			}
			states.List = append(states.List, s)
		})
		if states != nil {
			t.out.Emit(states)
		}
		var samples *timeline.StackSamples
		k.samples.drain(low, all, func(r *tracelog.ThreadSample) {
			r.Time = k.samples.taken
			thread := t.program(r.PID, r.Time).thread(r.TID)
			if samples != nil && samples.Thread != thread {
				t.out.Emit(samples)
				samples = nil
			}
			if samples == nil {
				samples = &timeline.StackSamples{Thread: thread, Period: t.period}
			}
			samples.List = append(samples.List, t.sample(r))
		})
		if samples != nil {
			t.out.Emit(samples)
		}
	}
	t.active = slices.DeleteFunc(t.active, func(k *threadTime) bool {
		k.rests = k.states.list.Len() == 0 && k.samples.list.Len() == 0 && k.lows.Low() == timeline.Never
		return k.rests
	})
}

// state returns the state of a record, as far as it lies behind the one before it.
func (t *threadTimes) state(k *threadTime, r *tracelog.ThreadState) (s timeline.State, ok bool) {
	s = timeline.State{Start: max(r.Start, k.end), End: timeline.End(r.Start, r.Dur),
		ThreadState: timeline.ThreadState(r.State - tracelog.StateRunning), CPU: r.CPU}
	if s.Start >= s.End {
		return s, false
	}
	k.end = s.End
	if r.Call == "" {
		return s, true
	}
	key := blockKey{call: r.Call, on: r.On, python: r.Python}
	if r.Holder != 0 {
		key.holder = t.program(r.PID, r.Start).thread(r.Holder)
	}
	if s.Why = t.blocks[key]; s.Why == nil {
		s.Why = &timeline.Block{Call: r.Call, On: r.On, Holder: key.holder, Python: t.catalog.Pythons.ByID(r.Python)}
		if len(t.blocks) < maxBlocks {
			t.blocks[key] = s.Why
		}
	}
	return s, true
}

func (t *threadTimes) sample(r *tracelog.ThreadSample) timeline.StackSample {
	s := timeline.StackSample{Time: r.Time, Native: t.catalog.Natives.ByID(r.Native),
		Python: t.catalog.Pythons.ByID(r.Python), Unread: r.Flags&tracelog.SampleUnread != 0}
	switch {
	case r.Flags&tracelog.SampleCall != 0:
		s.SampleMode = timeline.InCall
	case r.Flags&tracelog.SampleFault != 0:
		s.SampleMode = timeline.InFault
	case r.Flags&tracelog.SampleKernel != 0:
		s.SampleMode = timeline.InKernel
	}
	return s
}
