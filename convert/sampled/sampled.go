// Package sampled describes the values of sampled metrics over a part of time.
//
// Input: the samples of a set of metrics, in the order of time. Output: for each metric the mean over
// time, percentiles and the time beyond thresholds, and for how long each reason lowered the clocks.
// Values of two sets are never in one figure. Memory does not grow with the samples.
package sampled

import (
	"cmp"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/metric"
)

// Thresholds of a percentage: the time below and above is told.
const (
	LowPercent  = 10
	HighPercent = 80
)

// A Set has the values of a set of metrics.
type Set struct {
	*timeline.MetricSet
	Rows    []Row                    // by metric
	Reasons map[metric.Reason]uint64 // ns for which a reason lowered the clocks
	Known   uint64                   // ns for which reasons are known
}

// A Row has the values of a metric.
type Row struct {
	Time      uint64 // ns that the values cover
	Max       float64
	Low, High uint64 // ns below and above the thresholds

	values sketch.Distribution // in steps of step
	step   float64
	sum    float64 // of value times ns
}

// New returns a set without values.
func New(of *timeline.MetricSet) *Set {
	s := &Set{MetricSet: of, Rows: make([]Row, len(of.Metrics)), Reasons: make(map[metric.Reason]uint64)}
	for i := range s.Rows {
		s.Rows[i].step = stepOf(of.Metrics[i].Unit)
	}
	return s
}

// stepOf is the number of steps of a unit in which values are sorted.
func stepOf(u metric.Unit) float64 {
	switch u {
	case metric.Percent:
		return 100
	case metric.Watt, metric.Celsius:
		return 1000
	}
	return 1
}

// Add adds the values of a sample, of which so many ns count.
func (s *Set) Add(values []float64, ns uint64) {
	for i, v := range values {
		s.AddValue(i, v, ns)
	}
}

// AddValue adds a value of one metric. NaN is no value, and one of no time does not count.
func (s *Set) AddValue(i int, v float64, ns uint64) {
	switch {
	case math.IsNaN(v) || ns == 0:
	case s.Metrics[i].Unit == metric.BitsOfReason:
		s.Known += ns
		for _, r := range (metric.Reason(v) & metric.Throttling).List() {
			s.Reasons[r] += ns
		}
	default:
		s.Rows[i].countValue(v, ns)
	}
}

func (r *Row) countValue(v float64, ns uint64) {
	r.values.Add(uint64(min(max(0, math.Round(v*r.step)), 1<<63)))
	if r.Time == 0 || v > r.Max {
		r.Max = v
	}
	r.Time += ns
	r.sum += v * float64(ns)
	if v < LowPercent {
		r.Low += ns
	}
	if v > HighPercent {
		r.High += ns
	}
}

// Mean is the mean over time, NaN without values.
func (r *Row) Mean() float64 { return r.sum / float64(r.Time) }

// Percentile is the value below or at which a percentage of the samples lies, within 1 %.
func (r *Row) Percentile(percent uint64) float64 {
	return float64(r.values.Percentile(percent)) / r.step
}

// Lowered lists the reasons that lowered the clocks, by their bits.
func (s *Set) Lowered() (reasons []metric.Reason) {
	for r := range s.Reasons {
		reasons = append(reasons, r)
	}
	slices.Sort(reasons)
	return reasons
}

// Compare orders sets: by source, those of processes last, then by GPU.
func (s *Set) Compare(o *Set) int {
	return cmp.Or(cmp.Compare(sourcePlace[s.Source], sourcePlace[o.Source]), cmp.Compare(s.GPU, o.GPU))
}

var sourcePlace = map[metric.Source]int{metric.PM: 1, metric.GPM: 2, metric.NVML: 3, metric.Host: 4}
