package main

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/metriclog"
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
