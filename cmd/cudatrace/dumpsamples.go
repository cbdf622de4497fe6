package main

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/metriclog"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

// samples shows the values of samples.
type samples struct{ metriclog.Sets }

// Value is what a stored number stands for.
func (s *samples) Value(set uint64, index int, stored uint64) (v logtext.SampleValue) {
	m := s.metric(set, index)
	if m == nil { // a newer version's
		name, number := "value"+strconv.Itoa(index), strconv.FormatUint(stored, 10)
		return logtext.SampleValue{Name: name, Label: name, Text: number, JSON: number}
	}
	number, _ := m.Value(stored)
	v.Name, v.Label = m.Name, strings.ReplaceAll(cmp.Or(m.Label, m.Name), " ", "_")
	v.JSON = strconv.FormatFloat(number, 'f', -1, 64)
	v.Text = v.JSON + m.Unit.String()
	if m.Unit == metric.BitsOfReason {
		v.Text = reasons(metric.Reason(number))
	}
	return v
}

// metric is a metric of a set, nil where it is not known.
func (s *samples) metric(set uint64, index int) *metric.Metric {
	if set > math.MaxUint32 {
		return nil
	}
	of := s.Find(uint32(set))
	if of == nil || index >= len(of.Metrics) || of.Metrics[index].Kind.String() == "" {
		return nil
	}
	return &of.Metrics[index]
}

// reasons names a set of reasons.
func reasons(set metric.Reason) string {
	var names []string
	for _, r := range set.List() {
		names = append(names, strings.ReplaceAll(r.String(), " ", "_"))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "|")
}

// sampledOn selects the samples of certain devices, by the numbers that processes give them. A
// process's own samples stay.
type sampledOn struct {
	devices []uint32
	uuids   map[string][]uint32 // numbers that processes give a GPU
	sets    metriclog.Sets
}

// newSampledOn selects the samples of some devices in a log.
func newSampledOn(log convert.Log, devices []uint32) (*sampledOn, error) {
	s := &sampledOn{devices: devices, uuids: make(map[string][]uint32)}
	r, err := log.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.Select(tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindMetricSet, tracelog.KindDevice}}); err != nil {
		return nil, err
	}
	for r.Next() {
		b := r.Block()
		s.sets.Take(b)
		for i := 0; i < b.N && b.Kind == tracelog.KindDevice; i++ {
			var d tracelog.Device
			d.Read(b, i)
			s.uuids[d.UUID] = append(s.uuids[d.UUID], d.ID)
		}
	}
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return nil, err
	}
	return s, nil
}

// Wants reports whether to print a record.
func (s *sampledOn) Wants(b *tracelog.Block, i int) bool {
	if b.Kind != tracelog.KindSample {
		return true
	}
	c := b.Column("set")
	set := s.sets.Find(uint32(c.At(i)))
	if set == nil || set.PID != 0 {
		return true
	}
	numbers := s.uuids[set.UUID]
	if len(numbers) == 0 {
		numbers = []uint32{set.Device}
	}
	return slices.ContainsFunc(numbers, func(n uint32) bool { return slices.Contains(s.devices, n) })
}
