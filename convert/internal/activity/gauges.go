package activity

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// Gauges sample the counters of a timeline that may have too many values.
type Gauges struct {
	order []*gauge
	of    map[*timeline.Counter]*gauge
	left  uint64 // values of counters beyond maxGauges
	first uint64 // time of the first of these
}

// maxGauges bounds the counters; there are two for each process and GPU. Values of others are counted.
const maxGauges = 1 << 12

// A gauge samples one counter, in intervals of one length. An interval has the largest of its values, so
// that no peak is lost, and then its last one. While there are few values, all are samples.
type gauge struct {
	counter *timeline.Counter
	shift   uint // an interval is 1<<shift ns long
	list    []interim
}

// An interim is what an interval knows of its values.
type interim struct{ from, largest, last uint64 }

// Set takes a value of a counter.
func (s *Gauges) Set(v *timeline.CounterValue) {
	g := s.of[v.Counter]
	if g == nil && len(s.of) < maxGauges {
		if s.of == nil {
			s.of = make(map[*timeline.Counter]*gauge)
		}
		g = &gauge{counter: v.Counter}
		s.order, s.of[v.Counter] = append(s.order, g), g
	}
	if g != nil {
		g.set(v.Time, v.Value)
		return
	}
	if s.left++; s.left == 1 {
		s.first = v.Time
	}
}

// Note says for people which values are left out, nil for none.
func (s *Gauges) Note() *timeline.Note {
	if s.left == 0 {
		return nil
	}
	text := figures.Count(s.left, "value of a counter is", "values of counters are") +
		" not shown: there were more than " + figures.Group(maxGauges) + " counters"
	return &timeline.Note{Time: s.first, Text: text}
}

// Values yields the samples of all counters.
func (s *Gauges) Values(yield func(*timeline.CounterValue) bool) {
	for _, g := range s.order {
		for i, in := range g.list {
			if !yield(&timeline.CounterValue{Counter: g.counter, Time: in.from, Value: in.largest}) {
				return
			}
			end := timeline.End(in.from|(1<<g.shift-1), 1)
			if in.last == in.largest || i+1 < len(g.list) && g.list[i+1].from == end {
				continue
			}
			if !yield(&timeline.CounterValue{Counter: g.counter, Time: end, Value: in.last}) {
				return
			}
		}
	}
}

// set takes a value. A time before that of the last one counts as that time.
func (g *gauge) set(at, value uint64) {
	g.extend(interim{at, value, value})
	for len(g.list) > MaxSamples/2 {
		g.shift++
		all := g.list
		g.list = g.list[:0]
		for _, in := range all {
			g.extend(in)
		}
	}
}

// extend adds values to the last interval, or begins an interval. Of several values at one time the last counts.
func (g *gauge) extend(in interim) {
	n := len(g.list)
	if n == 0 || in.from>>g.shift > g.list[n-1].from>>g.shift {
		g.list = append(g.list, in)
		return
	}
	l := &g.list[n-1]
	l.last = in.last
	if g.shift > 0 {
		l.largest = max(l.largest, in.largest)
	} else {
		l.largest = in.largest
	}
}
