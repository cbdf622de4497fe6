package parquetsink

import (
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
)

// counter adds a value of a memory counter.
func (s *Sink) counter(v *timeline.CounterValue) {
	c := v.Counter
	b := s.part(c.Process).buffer(counterTable)
	b.int(s.unix(v.Time))
	b.int(parquet.NullInt)
	b.text(c.Name)
	b.small(null)
	b.small(null)
	b.text("B")
	gpu := c.GPU
	if c.Host {
		gpu = null
	}
	b.small(gpu)
	b.small(s.options.HostPID(c.Process.PID))
	b.float(float64(v.Value))
	s.end(b)
}

// samples adds a row for each value. A GPU's are in the partition of the first process that used it.
func (s *Sink) samples(e *timeline.Samples) {
	if len(s.logs) == 0 {
		return
	}
	set := e.Set
	p := s.partOfSet(set)
	b := p.buffer(counterTable)
	covered := s.coverage[set]
	if covered == nil {
		covered = &timeline.Coverage{Least: s.start}
		s.coverage[set] = covered
	}
	gpu, pid := set.GPU, uint32(null)
	if set.Process != nil {
		gpu, pid = null, s.options.HostPID(set.Process.PID)
	}
	for i := range e.List {
		sample := &e.List[i]
		from, _ := covered.Add(set, sample)
		for k, v := range sample.Values {
			if math.IsNaN(v) {
				continue
			}
			b.int(s.unix(from))
			b.uint(sample.End - min(from, sample.End))
			b.text(set.Label(k))
			b.text(set.Metrics[k].Name)
			b.text(set.Source.String())
			b.text(set.Metrics[k].Unit.String())
			b.small(gpu)
			b.small(pid)
			b.float(v)
			s.end(b)
		}
	}
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
	p.deviceRow(set.GPU, 0, null)
	return p
}

// unranked is the partition of what belongs to no process. The timeline does not tell from which of several logs it is.
func (s *Sink) unranked() partition {
	at := s.logs[0].unranked()
	if len(s.logs) > 1 {
		at.host = UnknownHost
	}
	return at
}
