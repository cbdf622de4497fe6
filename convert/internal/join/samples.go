package join

import (
	"cmp"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/ordered"
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
	held     int                // samples that wait for earlier ones
	leftOut  uint64             // samples that were left out, see show
}

// A series is the samples of a set.
type series struct {
	sets    []*timeline.MetricSet // one a program of the process; one for a GPU; none for a set that is left out
	lows    read.Lows
	work    timeline.Extent
	waiting ordered.List[tracelog.Sample]
	end     uint64 // of the latest sample
	program int    // of the samples in list
	list    []timeline.Sample
	values  []float64 // room for those of list

	main     *sampled.Set // main figures of a GPU, nil for other sets
	coverage timeline.Coverage
}

// mainMetrics are the metrics of a GPU that a summary of a log has.
var mainMetrics = []string{metric.NameSMActive, metric.NameGPMSMActive, metric.NameUtilization, metric.NamePower, metric.NameSMClock, metric.NameReasons}

const (
	// samplesPerEvent bounds the samples of an event.
	samplesPerEvent = 512

	// maxHeldSamples bounds the samples that wait for earlier ones.
	maxHeldSamples = 1 << 16
)

// sampleBefore is the order of samples: by start, the longer one first.
func sampleBefore(a, b *tracelog.Sample) bool {
	return a.Start < b.Start || a.Start == b.Start && a.Dur > b.Dur
}

func newSamples(c *read.Catalog, programs map[uint32][]*program, out *pipeline.Pipeline) samples {
	return samples{catalog: c, programs: programs, out: out, series: make(map[uint32]*series)}
}

// find returns the series of a set.
func (s *samples) find(id uint32) *series {
	k := s.series[id]
	if k != nil {
		return k
	}
	k = &series{waiting: ordered.NewList(sampleBefore)}
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
	k.waiting.Add(r)
	s.held++
}

// advance hands on the samples whose order is known; with all, or where too many wait, all of them.
func (s *samples) advance(all bool) {
	all = all || s.held > maxHeldSamples
	for _, k := range s.order {
		low := k.lows.Low()
		k.waiting.Drain(func(r *tracelog.Sample) bool { return r.Start < low || all }, func(r *tracelog.Sample) {
			s.held--
			s.show(k, r)
		})
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
	k.list = append(k.list, timeline.Sample{Start: r.Start, End: k.end, Values: k.values[from:len(k.values):len(k.values)]})
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
		s.out.Emit(&timeline.Note{Time: at, Text: figures.Count(s.leftOut, "sample of metrics", "samples of metrics") + " left out: they end before the one in front of them"})
	}
}
