package chromesink

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/metric"
)

// samples writes sampled values: those of a process to its file, those of a GPU to the files of the
// processes that used the GPU.
func (s *Sink) samples(e *timeline.Samples) {
	steps := s.metrics[e.Set]
	if steps == nil {
		steps = timeline.NewSteps(e.Set, s.clock.start)
		s.metrics[e.Set], s.sets = steps, append(s.sets, e.Set)
	}
	for i := range e.List {
		steps.Add(&e.List[i], s.step(e.Set))
	}
}

// endSamples writes the ends of all sampled values.
func (s *Sink) endSamples() {
	for _, set := range s.sets {
		s.metrics[set].Finish(s.step(set))
	}
}

// step returns a function that writes a value of a set, from a time on.
func (s *Sink) step(set *timeline.MetricSet) func(i int, at uint64, v float64) {
	return func(i int, at uint64, v float64) {
		if set.Process != nil {
			s.value(set, i, set.Process, set.Process.PID, at, v)
			return
		}
		for _, u := range set.Users {
			if f := s.value(set, i, u.Process, u.Number, at, v); f != nil {
				f.gpu(u.Number)
			}
		}
	}
}

// value writes a value of a metric to the file of a process, which it returns; nil without one.
func (s *Sink) value(set *timeline.MetricSet, i int, p *timeline.Process, row uint32, at uint64, v float64) *file {
	f := s.file(p)
	if f == nil {
		return nil
	}
	name := set.Label(i)
	if unit := set.Metrics[i].Unit; unit != metric.BitsOfReason && unit.String() != "" {
		name += " [" + unit.String() + "]"
	}
	o := f.begin("C", "metrics", name, row, row, at)
	o.begin("args")
	if set.Metrics[i].Unit == metric.BitsOfReason {
		for _, r := range metric.Throttling.List() {
			o.uint(r.String(), min(1, uint64(metric.Reason(v)&r)))
		}
	} else {
		o.float("value", v)
	}
	f.endArgs(&o)
	return f
}
