package metriclog

import (
	"slices"

	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// MaxSets is the largest number of sets that Sets keeps.
const MaxSets = 4096

// Sets are the sets of metrics of a log, by ID. The zero Sets has none.
type Sets struct {
	byID  map[uint32]*Set
	order []uint32
}

// Take takes in the definitions of a block, if it has any.
func (s *Sets) Take(b *tracelog.Block) {
	switch b.Kind {
	case tracelog.KindMetricSet:
		for i := range b.N {
			var r tracelog.MetricSet
			r.Read(b, i)
			if set := s.need(r.ID); set != nil {
				set.MetricSet = r
			}
		}
	case tracelog.KindMetric:
		for i := range b.N {
			var r tracelog.Metric
			r.Read(b, i)
			s.metric(&r)
		}
	}
}

// need returns a set, which is new if it has to be; nil beyond the limit.
func (s *Sets) need(id uint32) *Set {
	if set := s.byID[id]; set != nil || len(s.byID) >= MaxSets {
		return set
	}
	if s.byID == nil {
		s.byID = make(map[uint32]*Set)
	}
	set := &Set{MetricSet: tracelog.MetricSet{ID: id, Device: tracelog.MetricNoDevice}}
	s.byID[id] = set
	s.order = append(s.order, id)
	return set
}

func (s *Sets) metric(r *tracelog.Metric) {
	set := s.need(r.Set)
	if set == nil || r.Index >= tracelog.MaxMetrics {
		return
	}
	if missing := int(r.Index) + 1 - len(set.Metrics); missing > 0 {
		set.Metrics = append(set.Metrics, make([]metric.Metric, missing)...)
	}
	set.Metrics[r.Index] = metric.Metric{
		Name: r.Name, Label: r.Label, Unit: metric.Unit(r.Unit), Kind: metric.Kind(r.ValueKind), Scale: r.Scale,
	}
}

// Find returns the set with an ID, nil without one.
func (s *Sets) Find(id uint32) *Set { return s.byID[id] }

// All returns the sets in the order of the log.
func (s *Sets) All() []*Set {
	all := make([]*Set, 0, len(s.order))
	for _, id := range s.order {
		all = append(all, s.byID[id])
	}
	return slices.Clip(all)
}
