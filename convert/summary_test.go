package convert

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cudatrace/cudatrace/convert/internal/join"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/sampled"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/must"
)

// A summary tells at most maxErrors kinds of failed call apart, the frequent ones,
// and counts all.
func TestErrorBound(t *testing.T) {
	t.Parallel()
	failures := make(map[join.Failure]uint64)
	total := uint64(0)
	for i := range uint64(150) {
		failures[join.Failure{Function: "cudaMalloc", Library: "runtime", Ret: int32(10_000 + i)}] = i + 1
		total += i + 1
	}
	counts := errorCounts(failures)
	if len(counts) != maxErrors+1 || counts["cudaMalloc: cudaError_t 10149"] != 150 || counts[others] != 50*51/2 {
		t.Errorf("%d kinds, %d of the most frequent, %d others", len(counts), counts["cudaMalloc: cudaError_t 10149"], counts[others])
	}
	for _, n := range counts {
		total -= n
	}
	if total != 0 {
		t.Errorf("%d failures are missing", total)
	}
}

// The time of CUDA is from the first call to the last end, of a call or of GPU work.
func TestCUDATime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"": 0,
		"call pid=1 tid=1 func=#1 enter=5000 dur=300 ret=0\n":                                                                      300,
		"call pid=1 tid=1 func=#1 enter=5000 dur=300 ret=0\nkernel pid=1 device=0 context=1 stream=7 start=6000 dur=4000 name=k\n": 5000,
		"call pid=1 tid=1 func=#1 enter=5000 dur=9000 ret=0\nkernel pid=1 device=0 context=1 stream=7 start=6000 dur=400 name=k\n": 9000,
		"kernel pid=1 device=0 context=1 stream=7 start=0 dur=0 name=k\ncall pid=1 tid=1 func=#1 enter=5000 dur=9 ret=0\n":         9,
	} {
		open := logtest.Assemble(t, "clock monotonic=1000 realtime=1 boottime=1\nfunction id=1 name=cuInit library=driver args=\"\"\n"+text+"end time=900000 complete=1\n")
		all := must.Get(Timeline([]Log{{"test", open}}, Options{}, nil))(t)
		if s := all[0]; s.CUDANS != want || s.DurationNS != 899000 {
			t.Errorf("%d ns of CUDA in %d, want %d\n%s", s.CUDANS, s.DurationNS, want, text)
		}
	}
}

// A GPU's main figures cover the time of its work. SM active by PM sampling and by GPM, both in percent,
// are two figures.
func TestSampledFigures(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("testdata/metrics.log.txt"))(t)
	const gpm = `metric_set id=5 source=2 device=0 uuid=00112233445566778899aabbccddeeff interval=200000
metric set=5 index=0 name=gpm_sm_active label="SM active" unit=1 value_kind=1 scale=1
sample set=5 start=1100000 dur=200000 nvalues=1 value0=1001
sample set=5 start=1300000 dur=200000 nvalues=1 value0=2501
`
	all := must.Get(Timeline([]Log{{"test", logtest.Assemble(t, string(text)+gpm)}}, Options{}, nil))(t)
	figure := func(label, name, source string, u metric.Unit, mean, median, p95, most float64) sampled.Figure {
		return sampled.Figure{Label: label, Metric: name, Source: source, Unit: u, UnitName: u.String(), Time: 300_000, Mean: mean, Median: median, P95: p95, Max: most}
	}
	want := []sampled.GPU{{
		Index: 0,
		Figures: []sampled.Figure{
			figure("SM active", metric.NameSMActive, "PM sampling", metric.Percent, (97.5+50+97)/3, 97, 97.5, 97.5),
			figure("SM active", metric.NameGPMSMActive, "GPM", metric.Percent, (10+2*25)/3., 10, 25, 25),
			figure("Power", metric.NamePower, "NVML", metric.Watt, (700+2*600)/3., 602, 700, 700),
		},
		Known:   300_000,
		Lowered: []sampled.Lowered{{Reason: "power cap", Time: 300_000}},
		Others:  []sampled.Other{{PID: 99, Name: "python3"}},
	}}
	if diff := cmp.Diff(want, all[0].Metrics, cmpopts.EquateApprox(0.01, 0)); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

// What is shown early, late or not at all is counted in a note each.
func TestLimitNotes(t *testing.T) {
	t.Parallel()
	if notes := new(join.Found).Notes(); notes != nil {
		t.Errorf("notes of nothing: %q", notes)
	}
	want := []string{
		"1 call was shown before everything that may belong to a call was read: arrows and NVTX ranges may be missing",
		"2,000 calls and other records came too late in the log to be shown in order: slices may begin later",
		"1 call, range or function inside too many others: cut off or left out",
		"3 allocations and memory pools are not counted: there were more than 1,048,576",
	}
	goldentest.Same(t, want, (&join.Found{Forced: 1, Late: 2000, TooDeep: 1, Untracked: 3}).Notes(), "notes")
}
