package timeline

import (
	"cmp"
	"math"

	"github.com/cudatrace/cudatrace/record/metric"
)

// A MetricSet is a set of metrics of a GPU, or of a process, that are sampled together.
type MetricSet struct {
	Source   metric.Source
	GPU      uint32   // GPU.Index, for a set without a process
	Process  *Process // nil for a set of a GPU
	Interval uint64   // ns from sample to sample, as asked for
	Metrics  []metric.Metric
	Users    []Device // how processes of the recording number the GPU
}

// A Device is a GPU as a process numbers it.
type Device struct {
	Process *Process
	Number  uint32
}

// sourceNames are the names of sources for people.
var sourceNames = map[metric.Source]string{
	metric.NVML: "NVML", metric.GPM: "GPM", metric.PM: "PM sampling", metric.Host: "host",
}

// Title is the name of the set's source for people.
func (s *MetricSet) Title() string { return sourceNames[s.Source] }

// Label is the name of a metric for people. No two sets of a GPU have a metric of one label.
func (s *MetricSet) Label(i int) string {
	label := cmp.Or(s.Metrics[i].Label, s.Metrics[i].Name)
	if s.Source == metric.NVML || s.Source == metric.GPM {
		label += " (" + s.Title() + ")"
	}
	return label
}

// Samples are samples of a set, in the order of time. They do not overlap, also with those of
// other events.
type Samples struct {
	Set  *MetricSet
	List []Sample
	Work Extent // of the work on the GPU, or of the process
}

// An Extent is the time from the start of the first piece of GPU work to the end of the last; both are 0
// without work.
type Extent struct{ Start, End uint64 }

// A Sample has the values of a set's metrics from a time to another one. NaN is no value.
type Sample struct {
	Start, End uint64 // equal for values of a moment
	Values     []float64
}

// A GPUUser is a process outside the recording that had memory on a sampled GPU. The samples of
// the GPU are then of both.
type GPUUser struct {
	GPU        uint32 // GPU.Index
	PID        uint32 // on its host, 0 when not known
	Name       string
	Start, End uint64 // when it was first and last seen
	Bytes      uint64 // most memory that it had, 0 when not known
}

// A Coverage says which time the samples of a set stand for, one after the other.
type Coverage struct {
	Least uint64 // no time before it counts
	End   uint64 // of the latest sample
	Begun bool   // there was a sample
}

// Add returns the time from which a sample's values count: to its end. gap says that no sample stands
// for the time before. Values of a moment stand for the time since the moment before, or since an
// interval ago.
func (c *Coverage) Add(set *MetricSet, s *Sample) (from uint64, gap bool) {
	from, slack := s.Start, max(set.Interval/10, 1000) // the fit of two clocks may move
	if s.Start == s.End {
		from, slack = max(s.End-min(s.End, set.Interval), min(c.Least, s.End)), 3*set.Interval/2 // polls may be late
	}
	gap = !c.Begun || from > c.End && from-c.End > slack
	if c.Begun && (!gap || from < c.End) {
		from = c.End
	}
	c.End, c.Begun = s.End, true
	return from, gap
}

// Steps turn the samples of a set into values that hold from a time on.
type Steps struct {
	set      *MetricSet
	coverage Coverage
	known    []uint64 // by metric: the end of its latest value, 0 before the first
}

// NewSteps returns the steps of a set in a timeline that begins at a time.
func NewSteps(set *MetricSet, start uint64) *Steps {
	return &Steps{set: set, coverage: Coverage{Least: start}, known: make([]uint64, len(set.Metrics))}
}

// Add gives the values of a sample to a function, and 0 for values that ended before it.
func (k *Steps) Add(s *Sample, step func(metric int, at uint64, v float64)) {
	last := k.coverage.End
	from, gap := k.coverage.Add(k.set, s)
	for i, v := range s.Values {
		if last > 0 && k.known[i] == last && (gap || math.IsNaN(v)) {
			step(i, last, 0)
		}
		if !math.IsNaN(v) {
			k.known[i] = s.End
			step(i, from, v)
		}
	}
}

// Finish gives the end of the values.
func (k *Steps) Finish(step func(metric int, at uint64, v float64)) {
	for i, last := range k.known {
		if last > 0 && last == k.coverage.End {
			step(i, last, 0)
		}
	}
}

func (s *Samples) move(c *Clock) {
	if s.Work.End != 0 {
		s.Work.Start, s.Work.End = c.At(s.Work.Start), c.At(s.Work.End)
	}
	for i := range s.List {
		x := &s.List[i]
		x.Start, x.End = c.At(x.Start), c.At(x.End)
	}
}

func (u *GPUUser) move(c *Clock) { u.Start, u.End = c.At(u.Start), c.At(u.End) }
