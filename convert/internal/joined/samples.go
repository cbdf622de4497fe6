package joined

import (
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// counter adds a value of a memory counter.
func (s *Sink) counter(v *timeline.CounterValue) {
	c := v.Counter
	gpu := c.GPU
	if c.Host {
		gpu = None
	}
	row(s.part(c.Process), Counter{Start: s.unix(v.Time), Dur: NoNumber, Name: c.Name, Unit: "B",
		GPU: gpu, PID: s.options.HostPID(c.Process.PID), Value: float64(v.Value)})
}

// samples adds a row for each value. A GPU's are in the partition of the first process that used it.
func (s *Sink) samples(e *timeline.Samples) {
	if len(s.logs) == 0 {
		return
	}
	set := e.Set
	p := s.partOfSet(set)
	covered := s.coverage[set]
	if covered == nil {
		covered = &timeline.Coverage{Least: s.start}
		s.coverage[set] = covered
	}
	gpu, pid := set.GPU, uint32(None)
	if set.Process != nil {
		gpu, pid = None, s.options.HostPID(set.Process.PID)
	}
	var list []Counter
	for i := range e.List {
		sample := &e.List[i]
		from, _ := covered.Add(set, sample)
		for k, v := range sample.Values {
			if math.IsNaN(v) {
				continue
			}
			list = append(list, Counter{Start: s.unix(from), Dur: bounded(sample.End - min(from, sample.End)),
				Name:   set.Label(k),
				Metric: set.Metrics[k].Name, Source: set.Source.String(), Unit: set.Metrics[k].Unit.String(), GPU: gpu, PID: pid,
				Value: v})
		}
	}
	rows(p, list)
}

// partOfSet returns the partition of a set of metrics.
func (s *Sink) partOfSet(set *timeline.MetricSet) *part {
	switch {
	case set.Process != nil:
		return s.part(set.Process)
	case len(set.Users) > 0:
		u := set.Users[0]
		p := s.part(u.Process)
		p.deviceRow(set.GPU, s.options.HostPID(u.Process.PID), u.Number)
		return p
	}
	p := s.partAt(s.unranked())
	p.deviceRow(set.GPU, 0, None)
	return p
}

// unranked is the partition of what belongs to no process. The timeline does not tell from which of several logs it is.
func (s *Sink) unranked() partKey {
	at := s.logs[0].unranked()
	if len(s.logs) > 1 {
		at.host = UnknownHost
	}
	return at
}
