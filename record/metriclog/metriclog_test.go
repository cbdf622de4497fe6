package metriclog

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/recordtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// write makes a log.
func write(t *testing.T, f func(w *tracelog.Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	w := must.Get(tracelog.NewWriter(&b, tracelog.Options{}))(t)
	f(w)
	must.Do(t, w.Close(tracelog.End{Time: 1, Complete: 1}))
	return b.Bytes()
}

// read returns the sets of a log with its samples and losses.
func read(t *testing.T, log []byte) (sets Sets, samples []tracelog.Sample, lost []tracelog.Lost) {
	t.Helper()
	for r := recordtest.InMemory(t, log); r.Next(); {
		sets.Take(r.Block())
	}
	of := func() *tracelog.Reader { return recordtest.InMemory(t, log) }
	return sets, recordtest.Of[tracelog.Sample](t, of()), recordtest.Of[tracelog.Lost](t, of())
}

// pmSet is the default set of PM sampling.
func pmSet() Set {
	percent := func(name, label string) metric.Metric {
		return metric.Metric{Name: name, Label: label, Unit: metric.Percent, Kind: metric.Percentage}
	}
	rate := func(name, label string) metric.Metric {
		return metric.Metric{Name: name, Label: label, Unit: metric.BytesPerSec, Kind: metric.Rate}
	}
	return Set{
		MetricSet: tracelog.MetricSet{ID: 7, Source: uint32(metric.PM), UUID: strings.Repeat("ab", 16), Interval: 1e6},
		Metrics: []metric.Metric{
			{Name: metric.NameSMClockPM, Label: "SM clock", Unit: metric.Hertz, Kind: metric.Rate},
			percent(metric.NameGPUActive, "GPU active"), percent(metric.NameComputeActive, "Compute active"),
			percent(metric.NameSMActive, "SM active"), percent(metric.NameSMIssue, "SM issue"),
			percent(metric.NameTensor, "Tensor active"), percent(metric.NameOccupancy, "Occupancy"),
			rate(metric.NameDRAMRead, "DRAM read"), rate(metric.NameDRAMWrite, "DRAM write"), percent(metric.NameL2, "L2"),
			rate(metric.NamePCIeRead, "PCIe read"), rate(metric.NamePCIeWrite, "PCIe write"),
			rate(metric.NameNVLinkRx, "NVLink received"), rate(metric.NameNVLinkTx, "NVLink sent"),
		},
	}
}

// training makes values as a training step has them: phases of kernels, of copies, and idle, with
// noise on all of them.
func training(rnd *rand.Rand, ms int) []float64 {
	noise := func(v, part float64) float64 { return max(0, v*(1+part*rnd.NormFloat64())) }
	idle := []float64{noise(1.98e9, 1e-4), 0, 0, 0, 0, 0, 0, noise(2e6, 0.5), noise(1e6, 0.5), noise(0.02, 0.5), noise(3e5, 0.3), noise(2e5, 0.3), 0, 0}
	copying := []float64{noise(1.98e9, 1e-4), 100, 0, 0, 0, 0, 0, noise(3e7, 0.2), noise(5.7e10, 0.01), noise(3, 0.05), noise(5.75e10, 0.003), noise(4e8, 0.1), 0, 0}
	kernels := []float64{noise(1.5e9, 0.02), 100, noise(99.5, 0.002), noise(93, 0.03), noise(21, 0.1), noise(62, 0.1), noise(18, 0.1),
		noise(1.4e12, 0.1), noise(8e11, 0.1), noise(38, 0.1), noise(3e5, 0.3), noise(2e5, 0.3), noise(2e10, 0.3), noise(2e10, 0.3)}
	switch phase := ms % 50; {
	case phase < 4:
		return idle
	case phase < 8:
		return copying
	}
	return kernels
}

// A value of a long recording takes less than two bytes, as much as it varies.
func TestSize(t *testing.T) {
	const samples = 30000
	set := pmSet()
	rnd := rand.New(rand.NewPCG(3, 4))
	write := func(n int) int {
		return len(write(t, func(w *tracelog.Writer) {
			s := must.Get(Begin(w, set))(t)
			at := uint64(1e12)
			for i := range n {
				dur := 1e6 - 32 + rnd.Uint64N(65)
				s.Add(at, at+dur, training(rnd, i))
				at += dur
			}
		}))
	}
	size := float64(write(samples)-write(0)) / float64(samples*len(set.Metrics))
	t.Logf("%.3f bytes a value", size)
	if size >= 2 || size < 0.2 {
		t.Errorf("a value takes %.2f bytes, want less than 2", size)
	}
}

// What a series adds is in the log: the set, values as exactly as their kinds say, missing ones as
// missing, and losses with their time.
func TestSeries(t *testing.T) {
	set := Set{
		MetricSet: tracelog.MetricSet{ID: 3, Source: uint32(metric.NVML), Device: 1, UUID: strings.Repeat("cd", 16), Interval: 1e8},
		Metrics: []metric.Metric{
			{Name: metric.NamePower, Label: "Power", Unit: metric.Watt, Kind: metric.Level, Scale: 1000},
			{Name: metric.NameReasons, Label: "Clock reasons", Unit: metric.BitsOfReason, Kind: metric.Bits, Scale: 1},
			{Name: metric.NameUtilization, Label: "Utilization", Unit: metric.Percent, Kind: metric.Percentage, Scale: 1},
		},
	}
	sets, samples, lost := read(t, write(t, func(w *tracelog.Writer) {
		s := must.Get(Begin(w, set))(t)
		s.Add(1000, 1000, []float64{312.456, 4, 99.5})
		s.Add(2000, 3000, []float64{math.NaN(), 0})
		s.Lost(3000, 3000+5e8)
	}))
	goldentest.Same(t, []*Set{&set}, sets.All(), "sets")
	if sets.Find(3) == nil || sets.Find(4) != nil {
		t.Error("a set is found by another number")
	}
	if len(samples) != 2 || samples[0].Start != 1000 || samples[0].Dur != 0 || samples[1].Dur != 1000 || samples[1].NValues != 2 {
		t.Fatalf("samples are %+v", samples)
	}
	for i, want := range []float64{312.456, 4, 99.5} {
		if v, ok := set.Metrics[i].Value(samples[0].Values[i]); v != want || !ok {
			t.Errorf("value %d is %g, want %g", i, v, want)
		}
	}
	if _, ok := set.Metrics[0].Value(samples[1].Values[0]); ok {
		t.Error("a missing value has a value")
	}
	if diff := cmp.Diff([]tracelog.Lost{{Cause: tracelog.LostGPUMetrics, Count: 5, From: 3000, To: 3000 + 5e8}}, lost); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
}

// A set without metrics, or with too many, is refused.
func TestCheck(t *testing.T) {
	for n, fits := range map[int]bool{0: false, 1: true, tracelog.MaxMetrics: true, tracelog.MaxMetrics + 1: false} {
		set := Set{Metrics: make([]metric.Metric, n)}
		if err := set.Check(); (err == nil) != fits {
			t.Errorf("%d metrics: %v", n, err)
		}
	}
}

// A hostile log makes no more sets than the limit, and none without bounds.
func TestHostileSets(t *testing.T) {
	sets, _, _ := read(t, write(t, func(w *tracelog.Writer) {
		for i := range uint32(2 * MaxSets) {
			w.Add(&tracelog.MetricSet{ID: i})
			w.Add(&tracelog.Metric{Set: 1, Index: 1 << 30})
		}
	}))
	if n := len(sets.All()); n != MaxSets || len(sets.Find(1).Metrics) != 0 {
		t.Errorf("%d sets", n)
	}
}
