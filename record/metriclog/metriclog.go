// Package metriclog writes sampled metrics to a log and finds them in one. Input: values of a set
// of metrics with their times. Output: metric_set, metric and sample records; and the other way.
package metriclog

import (
	"fmt"

	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Set is a set of metrics that are sampled together.
type Set struct {
	tracelog.MetricSet
	Metrics []metric.Metric
}

// Check says what keeps a set out of a log.
func (s *Set) Check() error {
	if n := len(s.Metrics); n == 0 || n > tracelog.MaxMetrics {
		return fmt.Errorf("a set of %d metrics: a log takes 1 to %d in a set", n, tracelog.MaxMetrics)
	}
	return nil
}

// A Series adds the samples of one set to a log. Its methods must not be called at the same time.
type Series struct {
	log    *tracelog.Writer
	set    Set
	sample tracelog.Sample
}

// Begin adds the definition of a set to a log, and returns the series of its samples. The set's ID
// must be new in the log.
func Begin(log *tracelog.Writer, set Set) (*Series, error) {
	if err := set.Check(); err != nil {
		return nil, err
	}
	set.MetricSet.AddTo(log)
	for i := range set.Metrics {
		m := &set.Metrics[i]
		(&tracelog.Metric{Set: set.ID, Index: uint32(i), Name: m.Name, Label: m.Label,
			Unit: uint32(m.Unit), ValueKind: uint32(m.Kind), Scale: max(m.Scale, 1)}).AddTo(log)
	}
	return &Series{log: log, set: set, sample: tracelog.Sample{Set: set.ID, PID: set.PID}}, nil
}

// Add adds a sample: the values of the set's metrics, in their order, over a span of
// CLOCK_MONOTONIC; start is end for values of a moment. A NaN is no value, and so are the values
// that are missing at the end.
func (s *Series) Add(start, end uint64, values []float64) {
	r := &s.sample
	r.Start, r.Dur = start, end-min(start, end)
	n := min(len(values), len(s.set.Metrics))
	r.NValues = uint32(n)
	for i, v := range values[:n] {
		r.Values[i] = s.set.Metrics[i].Store(v)
	}
	r.AddTo(s.log)
}

// Lost adds to a log that a GPU's samples of a span of time are missing. The count of missing
// samples follows from the interval; it is at least 1.
func (s *Series) Lost(from, to uint64) {
	count := uint64(1)
	if s.set.Interval > 0 {
		count = max(1, (to-min(from, to))/s.set.Interval)
	}
	(&tracelog.Lost{PID: s.set.PID, Cause: tracelog.LostGPUMetrics, Count: count, From: from, To: to}).AddTo(s.log)
}
