package pfsink

import (
	"math"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/metric"
)

// metrics write sampled values: those of a GPU as its counters, those of a process as counters beside
// its threads.
type metrics struct {
	sink   *Sink
	start  uint64 // of the timeline
	series map[*timeline.MetricSet]series
	order  []series
}

// A series writes the samples of a set.
type series interface {
	writeSample(s *timeline.Sample)
	end()
}

func (m *metrics) writeSamples(e *timeline.Samples) {
	k := m.find(e.Set)
	for i := range e.List {
		k.writeSample(&e.List[i])
		m.sink.marks.see(e.List[i].Start, e.List[i].End)
	}
}

func (m *metrics) find(set *timeline.MetricSet) series {
	k := m.series[set]
	if k != nil {
		return k
	}
	if set.Process != nil {
		k = m.newProcessSeries(set)
	} else {
		k = m.newGPUSeries(set)
	}
	m.series[set], m.order = k, append(m.order, k)
	return k
}

// close ends all counters.
func (m *metrics) close() {
	for _, k := range m.order {
		k.end()
	}
}

// gpuUnits are the units that Perfetto has for GPU counters.
var gpuUnits = map[metric.Unit]perfetto.GPUUnit{
	metric.Percent: perfetto.GPUPercent, metric.Bytes: perfetto.GPUBytes, metric.BytesPerSec: perfetto.GPUBytesPerSecond,
	metric.Hertz: perfetto.GPUHertz, metric.Watt: perfetto.GPUWatts, metric.Celsius: perfetto.GPUCelsius,
	metric.CountPerSec: perfetto.GPUPerSecond, metric.Nanoseconds: perfetto.GPUNanoseconds,
}

// A gpuSeries writes samples of a GPU. What lowered its clocks is shown as slices, all else as counters.
type gpuSeries struct {
	set      *timeline.MetricSet
	counters *perfetto.GPUCounters
	lowered  []*throttle // by metric, nil for one that has a counter
	coverage timeline.Coverage
	known    []uint64  // by metric: the end of its latest value, 0 before the first
	values   []float64 // room for a packet
}

func (m *metrics) newGPUSeries(set *timeline.MetricSet) series {
	k := &gpuSeries{
		set: set, coverage: timeline.Coverage{Least: m.start}, known: make([]uint64, len(set.Metrics)),
		lowered: make([]*throttle, len(set.Metrics)),
	}
	info := perfetto.GPUCounterInfo{GPU: set.GPU, Group: set.Title(), Interval: set.Interval}
	for i, x := range set.Metrics {
		if x.Unit == metric.BitsOfReason {
			k.lowered[i] = &throttle{sink: m.sink, gpu: set.GPU}
			continue
		}
		info.Counters = append(info.Counters, perfetto.GPUCounter{
			Name: set.Label(i), Description: x.Name, Unit: gpuUnits[x.Unit],
		})
	}
	k.counters = m.sink.w.GPUCounters(info)
	return k
}

// writeSample writes a sample: its values at its end. Where the values before it end earlier than it begins, a
// packet with 0 stands at its beginning: a value counts for the time before its packet.
func (k *gpuSeries) writeSample(s *timeline.Sample) {
	last := k.coverage.End
	from, gap := k.coverage.Add(k.set, s)
	opens := false
	opening := k.packet(func(i int) float64 {
		if math.IsNaN(s.Values[i]) || !gap && k.known[i] == last {
			return math.NaN()
		}
		opens = true
		return 0
	})
	if opens {
		k.counters.Values(from, opening)
	}
	k.counters.Values(s.End, k.packet(func(i int) float64 { return s.Values[i] }))
	for i, v := range s.Values {
		if !math.IsNaN(v) {
			k.known[i] = s.End
		}
		if k.lowered[i] != nil {
			k.lowered[i].writeReasons(last, from, gap, v)
		}
	}
}

// packet returns the values of the counters, by the numbers of their metrics.
func (k *gpuSeries) packet(value func(i int) float64) []float64 {
	k.values = k.values[:0]
	for i := range k.set.Metrics {
		if k.lowered[i] == nil {
			k.values = append(k.values, value(i))
		}
	}
	return k.values
}

// end writes that the values end.
func (k *gpuSeries) end() {
	k.counters.Values(timeline.End(k.coverage.End, 1), k.packet(func(i int) float64 {
		if k.known[i] == 0 {
			return math.NaN()
		}
		return 0
	}))
	for _, t := range k.lowered {
		if t != nil {
			t.change(k.coverage.End, 0)
		}
	}
}

// A throttle shows when a GPU's clocks were lowered, and why.
type throttle struct {
	sink  *Sink
	gpu   uint32
	track *perfetto.Track // nil before the first slice
	now   metric.Reason
}

// writeReasons writes reasons that hold from a time on. last is the end of the reasons before them.
func (t *throttle) writeReasons(last, from uint64, gap bool, v float64) {
	if gap || math.IsNaN(v) {
		t.change(last, 0)
	}
	if !math.IsNaN(v) {
		t.change(from, metric.Reason(v)&metric.Throttling)
	}
}

// change ends the slice of the reasons so far, and begins that of others.
func (t *throttle) change(at uint64, reasons metric.Reason) {
	if reasons == t.now {
		return
	}
	if t.now != 0 {
		t.track.End(at)
	}
	if t.now = reasons; reasons == 0 {
		return
	}
	if t.track == nil {
		t.track = t.sink.w.Track(perfetto.TrackInfo{
			Name: "clocks lowered", Group: t.sink.tracks.group(nil, int64(t.gpu)), Rank: placeLowered,
		})
	}
	var names []string
	for _, r := range reasons.List() {
		names = append(names, r.String())
	}
	t.sink.shown++
	t.sink.once.Encode(t.sink.w, strings.Join(names, ", "), "gpu", nil)
	t.track.Begin(at, &t.sink.once, perfetto.Links{})
}

// A processSeries writes samples of a process.
type processSeries struct {
	counters []*perfetto.Counter
	steps    *timeline.Steps
}

func (m *metrics) newProcessSeries(set *timeline.MetricSet) series {
	k := &processSeries{steps: timeline.NewSteps(set, m.start)}
	group := m.sink.tracks.group(set.Process, noGPU)
	for i, x := range set.Metrics {
		info := perfetto.TrackInfo{Name: set.Label(i), Group: group, Rank: placeSampled + i}
		k.counters = append(k.counters, m.sink.w.Counter(info, perfetto.Unit(x.Unit.String())))
	}
	return k
}

func (k *processSeries) writeSample(s *timeline.Sample) { k.steps.Add(s, k.step) }

func (k *processSeries) end() { k.steps.Finish(k.step) }

func (k *processSeries) step(i int, at uint64, v float64) { writeNumber(k.counters[i], at, v) }
