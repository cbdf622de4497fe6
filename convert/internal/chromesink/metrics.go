package chromesink

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/metric"
)

// metrics write sampled values: those of a process to its file, those of a GPU to the files of the
// processes that used the GPU.
type metrics struct {
	steps map[*timeline.MetricSet]*timeline.Steps
	order []*timeline.MetricSet
}

func (m *metrics) writeSamples(s *Sink, e *timeline.Samples) {
	steps := m.steps[e.Set]
	if steps == nil {
		if m.steps == nil {
			m.steps = make(map[*timeline.MetricSet]*timeline.Steps)
		}
		steps = timeline.NewSteps(e.Set, s.clock.start)
		m.steps[e.Set], m.order = steps, append(m.order, e.Set)
	}
	for i := range e.List {
		steps.Add(&e.List[i], stepOf(s, e.Set))
	}
}

// finish writes the ends of all values.
func (m *metrics) finish(s *Sink) {
	for _, set := range m.order {
		m.steps[set].Finish(stepOf(s, set))
	}
}

// stepOf returns a function that writes a value of a set, from a time on.
func stepOf(s *Sink, set *timeline.MetricSet) func(i int, at uint64, v float64) {
	return func(i int, at uint64, v float64) {
		if set.Process != nil {
			if f := s.file(set.Process); f != nil {
				f.value(set, i, set.Process.PID, at, v)
			}
			return
		}
		for _, u := range set.Users {
			if f := s.file(u.Process); f != nil {
				f.gpu(u.Number)
				f.value(set, i, u.Number, at, v)
			}
		}
	}
}

// value writes a value of a metric.
func (f *file) value(set *timeline.MetricSet, i int, pid uint32, at uint64, v float64) {
	name, unit := set.Label(i), set.Metrics[i].Unit
	if unit != metric.BitsOfReason && unit.String() != "" {
		name += " [" + unit.String() + "]"
	}
	o := f.begin("C", "metrics", name, pid, pid, at)
	o.begin("args")
	if unit == metric.BitsOfReason {
		for _, r := range metric.Throttling.List() {
			o.uint(r.String(), min(1, uint64(metric.Reason(v)&r)))
		}
	} else {
		o.float("value", v)
	}
	f.endArgs(&o)
}
