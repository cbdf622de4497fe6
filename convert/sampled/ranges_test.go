package sampled

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/metric"
)

var percent = &timeline.MetricSet{Source: metric.PM, Interval: 1000, Metrics: []metric.Metric{{Name: "m", Unit: metric.Percent}}}

// summed are the parts with their figures.
func summed(all []*Part) (list []string) {
	for _, p := range all {
		r := &p.Sets[0].Rows[0]
		list = append(list, fmt.Sprintf("%s: %d ns, samples %d ns, mean %.6f, p95 %g", p.Name.Name, p.Time, r.Time, r.Mean(), r.Percentile(95)))
	}
	return list
}

// Little memory gives what much memory does, where samples come a while before or after the parts of
// their time.
func TestRangesBounded(t *testing.T) {
	t.Parallel()
	feed := func(r *Ranges, lag int) {
		rnd := rand.New(rand.NewPCG(1, 2))
		sample := func(i int) {
			if i >= 0 && i < 5000 {
				r.Take(&timeline.Samples{Set: percent, Work: timeline.Extent{Start: 1, End: timeline.Never},
					List: []timeline.Sample{{Start: 1000 * uint64(i+1), End: 1000 * uint64(i+2), Values: []float64{float64(i * 37 % 100)}}}}, 0)
			}
		}
		for i := range 5100 {
			sample(i - lag)
			from := 1000*uint64(i+1) + rnd.Uint64N(1000)
			r.Add(r.Part(0, Name{Name: fmt.Sprint(i % 3)}), from, from+rnd.Uint64N(3000))
			if r.held.values > r.limits.values || r.held.pieces > r.limits.pieces {
				t.Fatalf("%d values and %d pieces wait", r.held.values, r.held.pieces)
			}
		}
	}
	for _, lag := range []int{-20, 0, 20} {
		much, little := NewRanges(), NewRanges()
		little.limits = limits{values: 200, pieces: 200}
		feed(&much, lag)
		feed(&little, lag)
		want := summed(much.All())
		if len(want) != 3 || much.Late+little.Late > 0 {
			t.Fatalf("%q, %d late", want, much.Late+little.Late)
		}
		if diff := cmp.Diff(want, summed(little.All())); diff != "" {
			t.Errorf("samples %d after the parts (-much memory +little):\n%s", lag, diff)
		}
	}
}

// A sample belongs to a part if at least half of it does. Parts that overlap count once.
func TestRangesHalf(t *testing.T) {
	t.Parallel()
	r := NewRanges()
	p := r.Part(0, Name{Name: "a"})
	for _, x := range []piece{{1500, 1800}, {1700, 2000}, {2600, 2800}, {2000, 2299}, {3000, 3100}, {3900, 4000}, {3300, 3600}} {
		r.Add(p, x.from, x.to)
	}
	var list []timeline.Sample
	for i := range uint64(4) {
		list = append(list, timeline.Sample{Start: 1000 * i, End: 1000 * (i + 1), Values: []float64{float64(10 * i)}})
	}
	r.Take(&timeline.Samples{Set: percent, Work: timeline.Extent{Start: 0, End: 5000}, List: list}, 0)
	goldentest.Same(t, []string{"a: 1499 ns, samples 1000 ns, mean 20.000000, p95 29.92"}, summed(r.All()), "parts")
}

// Names beyond the first are one part, and samples after those of their time are told.
func TestRangesLimits(t *testing.T) {
	t.Parallel()
	r := NewRanges()
	for i := range 3 * maxParts {
		r.Add(r.Part(0, Name{Name: fmt.Sprint(i)}), 1000, 2000)
	}
	if len(r.parts) != maxParts+1 || r.parts[maxParts].Name != Others {
		t.Errorf("%d parts", len(r.parts))
	}
	at := func(start uint64) *timeline.Samples {
		return &timeline.Samples{Set: percent, Work: timeline.Extent{End: 1 << 20}, List: []timeline.Sample{{Start: start, End: start + 1000, Values: []float64{1}}}}
	}
	r.Take(at(1000), 0)
	r.count(r.gpus[0], 5000, 0)
	r.Take(at(3000), 0)
	r.Add(r.parts[0], 3000, 4000)
	if r.Late != 2 {
		t.Errorf("%d late", r.Late)
	}
}
