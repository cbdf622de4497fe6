package live

import (
	"math"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/metric"
)

// An interval has the means of its samples, or the latest value before it. Of two sources of one metric the first counts.
func TestSensors(t *testing.T) {
	t.Parallel()
	const second = 1_000_000_000
	set := &timeline.MetricSet{Source: metric.NVML, Metrics: []metric.Metric{{Name: metric.NamePower}, {Name: metric.NameTemperature}, {Name: metric.NameSMClock}}}
	other := &timeline.MetricSet{Source: metric.PM, Metrics: []metric.Metric{{Name: metric.NameSMClockPM}, {Name: metric.NameSMActive}}}
	host := &timeline.MetricSet{Source: metric.Host, Process: new(timeline.Process), Metrics: []metric.Metric{{Name: metric.NamePower}}}
	var reports []*Report
	s := New(Options{Report: func(r *Report) { reports = append(reports, r) }})
	at := func(set *timeline.MetricSet, end uint64, values ...float64) timeline.Event {
		return &timeline.Samples{Set: set, List: []timeline.Sample{{Start: end, End: end, Values: values}}}
	}
	err := s.Take([]timeline.Event{
		&timeline.Recording{Start: 100}, &timeline.GPUs{List: []timeline.GPU{{Index: 0}, {Index: 1}}},
		at(set, second/2, 100, 50, 2e9), at(host, second/2, 7), at(set, second/2+1, 200, 50, math.NaN()), at(other, second/2, 1e9, 40),
		at(set, 2*second+200, 300, 50, 1e9),
		&timeline.CounterValue{Counter: &timeline.Counter{Host: true}, Time: second},
		&timeline.Loss{Time: 3 * second, Count: 1}, &timeline.Known{Until: 5 * second},
	})
	if err != nil || len(reports) < 3 {
		t.Fatal(len(reports), err)
	}
	for i, want := range [][3]float64{{150, 2e9, 40}, {150, 2e9, 40}, {300, 1e9, 40}} {
		g := reports[i].GPUs[0]
		if g.Power == nil || g.SMClock == nil || g.SMActive == nil || *g.Power != want[0] || *g.SMClock != want[1] || *g.SMActive != want[2] {
			t.Errorf("second %d: %+v, want %v", i, g.Sensors, want)
		}
		if g := reports[i].GPUs[1]; g.Power != nil || g.SMActive != nil {
			t.Errorf("a GPU without samples has %+v", g.Sensors)
		}
	}
}
