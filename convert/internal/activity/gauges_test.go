package activity

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

type point struct{ Time, Value uint64 }

func samplesOf(s *Gauges, c *timeline.Counter) (list []point) {
	for v := range s.Values {
		if v.Counter == c {
			list = append(list, point{v.Time, v.Value})
		}
	}
	return list
}

// TestFewValues keeps all values of a counter with few: of several at one time the last.
func TestFewValues(t *testing.T) {
	t.Parallel()
	var s Gauges
	a, b := &timeline.Counter{Name: "a"}, &timeline.Counter{Name: "b"}
	s.Set(&timeline.CounterValue{Counter: b, Time: 10, Value: 7})
	for _, v := range []point{{10, 5}, {10, 3}, {20, 9}, {30, 0}} {
		s.Set(&timeline.CounterValue{Counter: a, Time: v.Time, Value: v.Value})
	}
	if diff := cmp.Diff([]point{{10, 3}, {20, 9}, {30, 0}}, samplesOf(&s, a)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]point{{10, 7}}, samplesOf(&s, b)); diff != "" {
		t.Error(diff)
	}
}

// TestManyValues samples many values: no sample is less than a value up to the next one, each is one of
// those values, and the last value stays.
func TestManyValues(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		var s Gauges
		c := &timeline.Counter{}
		var set []point
		at := uint64(1000)
		for i := range 10_000 {
			at += r.Uint64N(1 + 1000*(seed%4)) // seed 0: all at one time
			v := point{at, r.Uint64N(100)}
			if i == 5000 {
				v.Value = 1000
			}
			set = append(set, v)
			s.Set(&timeline.CounterValue{Counter: c, Time: v.Time, Value: v.Value})
		}
		checkSamples(t, seed, set, samplesOf(&s, c))
	}
}

func checkSamples(t *testing.T, seed uint64, set, got []point) {
	t.Helper()
	if len(got) > MaxSamples || seed%4 != 0 && len(got) < MaxSamples/4 {
		t.Errorf("seed %d: %d samples", seed, len(got))
	}
	if last := got[len(got)-1].Value; last != set[len(set)-1].Value {
		t.Errorf("seed %d: ends with %d, not %d", seed, last, set[len(set)-1].Value)
	}
	before, n := uint64(0), 0
	for i, p := range got {
		end := timeline.Never
		if i+1 < len(got) {
			end = got[i+1].Time
		}
		possible, largest := map[uint64]bool{before: true}, uint64(0)
		for ; n < len(set) && set[n].Time < end; n++ {
			before = set[n].Value
			possible[before] = true
			largest = max(largest, before)
		}
		if seed%4 != 0 && (p.Value < largest || !possible[p.Value]) {
			t.Errorf("seed %d: from %d to %d the largest is %d, the sample is %d", seed, p.Time, end, largest, p.Value)
		}
	}
}

// Values of counters beyond the bound are counted in a note.
func TestGaugesBound(t *testing.T) {
	t.Parallel()
	var g Gauges
	for i := range uint64(maxGauges) {
		g.Set(&timeline.CounterValue{Counter: new(timeline.Counter), Time: i})
	}
	if note := g.Note(); note != nil {
		t.Errorf("with as many counters as there is room for: %q", note.Text)
	}
	beyond := new(timeline.Counter)
	g.Set(&timeline.CounterValue{Counter: beyond, Time: 7000})
	g.Set(&timeline.CounterValue{Counter: beyond, Time: 8000})
	want := timeline.Note{Time: 7000, Text: "2 values of counters are not shown: there were more than 4,096 counters"}
	if note := g.Note(); note == nil || *note != want {
		t.Errorf("note %v, want %v", note, want)
	}
}
