package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/metric"
)

// An Overview is a sink that collects the reports of a timeline, and besides these what its charts show over time.
type Overview struct {
	Stats    *stats.Sink
	start    uint64
	spread   uint64 // from the start of the recording to that of the log that begins last
	counters *activity.Counters
	gauges   activity.Gauges
	powers   []*power
	parts    map[partKey]timeline.Part // in collectives in which a rank waited
}

// A partKey is a kernel of a timeline, whichever time it is read.
type partKey struct {
	pid, stream uint32
	start       uint64
}

// mostParts bounds the parts that are kept.
const mostParts = 1 << 16

func keyOf(s *timeline.Stream, w *timeline.Work) partKey {
	return partKey{s.Context.Process.PID, s.ID, w.Start}
}

// NewOverview returns an overview without events.
func NewOverview() *Overview {
	o := &Overview{Stats: stats.New(), counters: activity.NewCounters(true), parts: make(map[partKey]timeline.Part)}
	o.Stats.Fold()
	o.Stats.FollowMemory()
	return o
}

// Take takes events.
func (o *Overview) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Recording:
			o.start, o.spread = e.Start, max(e.LastStart, e.Start)-e.Start
		case *timeline.WorkList:
			o.counters.Work(e)
			o.keepParts(e)
		case *timeline.CounterValue:
			o.gauges.Set(e)
		case *timeline.Samples:
			o.sample(e)
		}
	}
	return o.Stats.Take(events)
}

func (o *Overview) keepParts(e *timeline.WorkList) {
	for i := range e.List {
		if p := e.List[i].Part; p != nil && p.Last != "" && p.Waited > 0 && len(o.parts) < mostParts {
			o.parts[keyOf(e.Stream, &e.List[i])] = *p
		}
	}
}

// Spread is the time from the start of the first log to that of the last one, from which its own times count.
func (o *Overview) Spread() uint64 { return o.spread }

// End ends the timeline.
func (o *Overview) End(err error) error { return o.Stats.End(err) }

func (o *Overview) since(at uint64) uint64 { return at - min(at, o.start) }

// A power is the power of a GPU over time, in bins whose width doubles when there would be too many.
type power struct {
	set   *timeline.MetricSet
	index int // of the metric
	width uint64
	list  []reading
}

type reading struct {
	at    uint64
	value float64
}

const (
	mostPowers   = 64  // GPUs
	mostReadings = 512 // of a GPU
)

func (o *Overview) sample(e *timeline.Samples) {
	i := slices.IndexFunc(e.Set.Metrics, func(m metric.Metric) bool { return m.Unit == metric.Watt })
	if i < 0 || e.Set.Process != nil {
		return
	}
	at := slices.IndexFunc(o.powers, func(p *power) bool { return p.set.GPU == e.Set.GPU })
	if at < 0 {
		if len(o.powers) >= mostPowers {
			return
		}
		at = len(o.powers)
		o.powers = append(o.powers, &power{set: e.Set, index: i, width: 1})
	}
	if o.powers[at].set != e.Set {
		return // the same sensor, from another source
	}
	for k := range e.List {
		o.powers[at].take(&e.List[k])
	}
}

func (p *power) take(s *timeline.Sample) {
	v := s.Values[p.index]
	n := len(p.list)
	if math.IsNaN(v) || n > 0 && s.End < p.list[n-1].at+p.width {
		return
	}
	p.list = append(p.list, reading{s.End, v})
	if len(p.list) < mostReadings {
		return
	}
	for i := range mostReadings / 2 {
		p.list[i] = p.list[2*i]
	}
	p.list = p.list[:mostReadings/2]
	p.width = (p.list[len(p.list)-1].at - p.list[0].at) / (mostReadings / 2)
}

// A lane is what a process did on a GPU over time.
type lane struct {
	title string
	of    *timeline.Process
	gpu   uint32
	bins  []activity.Slice
}

// lanes are at most so many processes on their GPUs, by rank, and how many more there are.
func (o *Overview) lanes(most int) (list []lane, more int) {
	type part struct {
		gpu uint32
		*activity.Part
	}
	var parts []part
	for gpu, d := range o.counters.Devices {
		for _, p := range d.Parts {
			if p.Pieces > 0 {
				parts = append(parts, part{gpu, p})
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		byRank, byPID := a.Process.Rank.Compare(b.Process.Rank), cmp.Compare(a.Process.PID, b.Process.PID)
		return cmp.Or(byRank, cmp.Compare(a.gpu, b.gpu), byPID)
	})
	if more = len(parts) - most; more > 0 {
		parts = parts[:most]
	}
	bins := uint64(mostBins)
	if len(parts) > fewLanes {
		bins /= 4
	}
	for _, p := range parts {
		title := processTitle(p.Process, fmt.Sprintf("GPU %d", p.gpu), len(parts) > 1)
		list = append(list, lane{title, p.Process, p.gpu, p.Bins(bins)})
	}
	return list, max(more, 0)
}

// processOn is the PID of a process that worked on a GPU, 0 for none.
func (o *Overview) processOn(gpu uint32) uint32 {
	for index, d := range o.counters.Devices {
		for _, p := range d.Parts {
			if index == gpu && p.Pieces > 0 {
				return p.Process.PID
			}
		}
	}
	return 0
}

const (
	mostLanes = 8 // of one kind in a drawing: processes on GPUs, curves, threads, streams
	fewLanes  = 2
	mostBins  = 1000 // of a lane; a quarter where there are more than a few lanes
)

// processTitle names something of a process: its rank where it has one, else its number where there are several.
func processTitle(p *timeline.Process, what string, several bool) string {
	switch {
	case p.Rank.Known:
		return fmt.Sprintf("rank %d, %s", p.Rank.Number, what)
	case several:
		return fmt.Sprintf("%s, process %d", what, p.PID)
	}
	return what
}

// A curve is a value over time.
type curve struct {
	title string
	list  []reading
	most  float64
}

// memory are the curves of the device memory of processes, the largest one first.
func (o *Overview) memory() (list []curve) {
	of, processes := make(map[*timeline.Counter]int), make(map[*timeline.Process]bool)
	for v := range o.gauges.Values {
		processes[v.Counter.Process] = true
	}
	for v := range o.gauges.Values {
		if !v.Counter.Device {
			continue
		}
		i, known := of[v.Counter]
		if !known {
			i = len(list)
			of[v.Counter] = i
			title := processTitle(v.Counter.Process, fmt.Sprintf("GPU %d", v.Counter.GPU), len(processes) > 1)
			list = append(list, curve{title: title})
		}
		list[i].list = append(list[i].list, reading{v.Time, float64(v.Value)})
		list[i].most = max(list[i].most, float64(v.Value))
	}
	return largest(list)
}

// power are the curves of the power of GPUs, the largest one first.
func (o *Overview) power() (list []curve) {
	for _, p := range o.powers {
		c := curve{title: fmt.Sprintf("GPU %d", p.set.GPU), list: p.list}
		for _, r := range p.list {
			c.most = max(c.most, r.value)
		}
		list = append(list, c)
	}
	return largest(list)
}

func largest(list []curve) []curve {
	list = slices.DeleteFunc(list, func(c curve) bool { return c.most == 0 })
	slices.SortStableFunc(list, func(a, b curve) int { return cmp.Compare(b.most, a.most) })
	return list
}
