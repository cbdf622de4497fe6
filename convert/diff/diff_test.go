package diff

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

func TestMain(m *testing.M) { logtest.Main(m) }

// rule is the usual one.
var rule = Rule{Rate: 0.01, GateRate: 0.02, MinChange: 0.05}

// words are the rows that differ: "kernels step<2>: slower".
func words(d *Diff) (list []string) {
	for _, s := range d.Sections {
		for _, r := range s.Rows[:s.Differ] {
			list = append(list, fmt.Sprintf("%s %s: %s", s.Report, r.Name, strings.Join(r.Verdicts, ", ")))
		}
	}
	return list
}

// A fault is found, and named first: a new call with one run a side, a longer kernel with four.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault string
		steps logtest.Steps
		runs  int
		want  []string
	}{
		{"nothing", logtest.Steps{}, 1, nil},
		{"nothing", logtest.Steps{}, 4, nil},
		{"nothing", logtest.Steps{}, 8, nil},
		{"cudaMalloc in the loop", logtest.Steps{Malloc: true}, 1, []string{"calls cudaMalloc: new", "calls cudaFree: new", "memory device of GPU 0: larger peak, more allocations"}},
		{"cudaMalloc in the loop", logtest.Steps{Malloc: true}, 4, []string{"calls cudaMalloc: new", "calls cudaFree: new", "calls cudaDeviceSynchronize: faster",
			"nvtx step: slower", "memory device of GPU 0: larger peak, more allocations", "devices GPU 0: NVIDIA H200: more idle"}},
		{"a wait in the loop", logtest.Steps{Wait: true}, 1, []string{"calls cudaStreamSynchronize: new"}},
		{"a wait in the loop", logtest.Steps{Wait: true}, 4, []string{"calls cudaStreamSynchronize: new", "calls cudaDeviceSynchronize: faster", "nvtx step: slower",
			"devices GPU 0: NVIDIA H200: more idle"}},
		{"a longer kernel", logtest.Steps{Longer: 0.1}, 3, nil},
		{"a longer kernel", logtest.Steps{Longer: 0.1}, 4, []string{"kernels step<2>: slower"}},
		{"a shorter kernel", logtest.Steps{Longer: -0.1}, 5, []string{"kernels step<2>: faster"}},
		{"another kernel", logtest.Steps{Kernels: []string{"_Z3addPf"}}, 1, []string{"kernels add: new", "kernels step<0>: gone"}},
	} {
		c.steps.Noise, c.steps.Seed = 0.005, 1000
		d := Compare(runsOf(t, c.runs, logtest.Steps{Seed: 100, Noise: 0.005}), runsOf(t, c.runs, c.steps), rule)
		goldentest.Same(t, c.want, words(d), "%s, %d runs", c.fault, c.runs)
		if section, row := d.First(); section != nil && fmt.Sprintf("%s %s: %s", section.Report, row.Name, strings.Join(row.Verdicts, ", ")) != c.want[0] {
			t.Errorf("%s, %d runs: first %s %s", c.fault, c.runs, section.Report, row.Name)
		}
		if len(d.Problems) > 0 {
			t.Errorf("%s: %v", c.fault, d.Problems)
		}
	}
}

// Without a test the size of a difference decides, whatever the number of runs.
func TestUntested(t *testing.T) {
	t.Parallel()
	base := runsOf(t, 1, logtest.Steps{Seed: 100, Noise: 0.001})
	d := Compare(base, runsOf(t, 1, logtest.Steps{Seed: 200, Noise: 0.001, Longer: 0.1}), Rule{Untested: true, MinChange: 0.05})
	goldentest.Same(t, []string{"kernels step<2>: slower"}, words(d), "result")
}

// What a kernel is called may change with the compiler: it is the same kernel where no other one
// can be meant.
func TestRenamed(t *testing.T) {
	t.Parallel()
	type match struct{ Was, Name, How string }
	const (
		gemm64    = "_Z4gemmILi64EEvPf"                 // gemm<64>
		gemm128   = "_Z4gemmILi128EEvPf"                // gemm<128>
		gemmInt   = "_Z4gemmILi64EEvPi"                 // other parameters
		fused1    = "triton_fused_add_0f1e2d3c4b"       // a hash
		fused2    = "triton_fused_add_99aabbccdd"       // another one
		fusedMul  = "triton_fused_mul_99aabbccdd"       // another kernel
		wordsOnly = "triton_fused_add_deadbeefdeadbeef" // a hash too
	)
	for _, c := range []struct {
		base, new []string
		want      []match
	}{
		{[]string{gemm64}, []string{gemm128}, []match{{"gemm<64>", "gemm<128>", "template"}}},
		{[]string{gemm64}, []string{gemmInt}, []match{{"", "gemm<64>", "parameters"}}},
		{[]string{fused1}, []string{fused2}, []match{{fused1, fused2, "hash"}}},
		{[]string{fused1}, []string{fusedMul}, nil},
		{[]string{fused1}, []string{wordsOnly}, nil}, // letters alone are a word
		{[]string{gemm64, gemm128}, []string{gemm64, "_Z4gemmILi256EEvPf"}, nil},
		{[]string{fused1, "triton_fused_add_1111111111"}, []string{fused2, "triton_fused_add_2222222222"}, nil},
		{[]string{"_ZltRK1AS1_"}, []string{"_ZgtRK1AS1_"}, nil}, // operators
	} {
		base := runsOf(t, 1, logtest.Steps{Seed: 1, Kernels: c.base})
		d := Compare(base, runsOf(t, 1, logtest.Steps{Seed: 2, Kernels: c.new}), rule)
		var got []match
		for _, r := range d.Sections[0].Rows {
			if r.Match != "" {
				got = append(got, match{r.Was, r.Name, r.Match})
			}
		}
		goldentest.Same(t, c.want, got, "%v, %v", c.base, c.new)
		if n := len(words(d)); (n == 0) != (c.want != nil) {
			t.Errorf("%v, %v: %v", c.base, c.new, words(d))
		}
	}
}

// People read short names of the kernels of both sides, which tell all of them apart.
func TestShortNames(t *testing.T) {
	t.Parallel()
	const (
		nn = "ampere_sgemm_128x64_nn"
		tn = "ampere_sgemm_128x64_tn"
		dp = "ampere_dgemm_128x64_tn"
	)
	base := runsOf(t, 1, logtest.Steps{Seed: 1, Kernels: []string{nn, dp}})
	d := Compare(base, runsOf(t, 1, logtest.Steps{Seed: 2, Kernels: []string{tn, dp}}), rule)
	got := make(map[string]string)
	for _, r := range d.Sections[0].Rows {
		if strings.HasPrefix(r.Name, "ampere") {
			got[r.Name] = r.shown()
		}
	}
	want := map[string]string{
		nn: "gemm f32 128x64 (cublas) nn", tn: "gemm f32 128x64 (cublas) tn", dp: "gemm f64 128x64 (cublas)",
	}
	goldentest.Same(t, want, got, "result")
	var text, data strings.Builder
	page := &Page{Diff: d}
	must.Do(t, errors.Join(page.WriteText(&text, 200), page.WriteJSON(&data)))
	for full, short := range map[string]string{nn: want[nn], tn: want[tn]} {
		shown, whole := strings.Contains(text.String(), short), strings.Contains(text.String(), full)
		if !shown || whole || !strings.Contains(data.String(), full) {
			t.Errorf("%s is not %s in text, or not itself in JSON:\n%s\n%s", full, short, &text, &data)
		}
	}
}

// What makes runs not comparable is named, with two runs that differ.
func TestProblems(t *testing.T) {
	t.Parallel()
	json := strings.NewReplacer(`"nvidia_driver":""`, `"nvidia_driver":"580.1"`, `"ended":""`, `"ended":"exit code 0"`).Replace(document(t, logtest.Steps{Seed: 1}))
	for _, c := range []struct{ old, new, kind, text string }{
		{`"complete":true`, `"complete":false`, Incomplete, "log is not complete ('cudatrace info log' says why)"},
		{`"ended":"exit code 0"`, `"ended":"signal 6"`, Incomplete, "different ends of the program: base has exit code 0, new has signal 6"},
		{`"ended":"exit code 0"`, `"ended":""`, "", ""}, // not known
		{"NVIDIA H200", "NVIDIA A100", OtherGPU, "different GPUs: base has NVIDIA H200, new has NVIDIA A100"},
		{`"driver_version":"13.0"`, `"driver_version":"12.8"`, OtherDriver, "different CUDA versions of the driver: base has 13.0, new has 12.8"},
		{`"nvidia_driver":"580.1"`, `"nvidia_driver":"570.2"`, OtherDriver, "different releases of the driver: base has 580.1, new has 570.2"},
		{`"git_revision":""`, `"git_revision":"abc"`, "", ""},
		{`"call_source":"uprobes"`, `"call_source":"cupti"`, OtherMode, "different sources of the calls: base has uprobes, new has cupti"},
		{`"gpu_source":"cupti"`, `"gpu_source":"none"`, OtherMode, "different sources of the GPU work: base has cupti, new has none"},
		{`"schedule":""`, `"schedule":"--delay 5s"`, OtherMode, "different recorded parts: base has all, new has --delay 5s"},
		{`"filtered":false`, `"filtered":true`, OtherMode, "different filters: base has all of the log, new has a part of the log"},
		{`"in_graphs": 0`, `"in_graphs": 3`, "", ""}, // there are graphs now
		{`,"cudaMalloc"`, ``, OtherMode, "different probed functions: new lacks cudaMalloc"},
	} {
		changed := strings.ReplaceAll(json, c.old, c.new)
		if changed == json {
			t.Errorf("%s is not in the JSON", c.old)
		}
		d := Compare([]*Run{readRun(t, "base", json)}, []*Run{readRun(t, "new", changed)}, rule)
		var want []Problem
		if c.kind != "" {
			want = []Problem{{Kind: c.kind, Text: c.text}}
		}
		goldentest.Same(t, want, d.Problems, "%s", c.new)
	}
}

// Other SM clocks are named, with what lowered them; small differences are not.
func TestClocks(t *testing.T) {
	t.Parallel()
	run := func(name string, mhz int, more string) *Run {
		return readRun(t, name, fmt.Sprintf(`{"version": 1, "logs": [{"name": "l", "complete": true}], "metrics": [
			{"name": "SM clock", "metric": "sm_clock", "source": "NVML", "gpu": 0, "pid": null, "mean": %d000000},
			{"name": "CPU use", "metric": "cpu", "source": "host", "gpu": null, "pid": 7, "mean": 50}%s]}`, mhz, more))
	}
	const hot = `, {"name": "clocks lowered: power cap", "metric": "clock_reasons", "source": "NVML", "gpu": 0, "mean": 4},
		{"name": "clocks lowered: hardware thermal slowdown", "metric": "clock_reasons", "source": "NVML", "gpu": 0, "mean": 40}`
	base := []*Run{run("a", 1980, ""), run("b", 1970, "")}
	want := []Problem{{Kind: OtherClocks, Text: "SM clock of GPU 0: 1975 MHz in BASE, 1400 MHz in NEW (lowered by hardware thermal slowdown, power cap)"}}
	goldentest.Same(t, want, Compare(base, []*Run{run("c", 1400, hot)}, rule).Problems, "problems")
	for _, other := range []*Run{run("d", 1960, hot), readRun(t, "e", `{"version": 1, "logs": [{"name": "l", "complete": true}]}`)} {
		if got := Compare(base, []*Run{other}, rule).Problems; len(got) != 0 {
			t.Errorf("%s: %v", other.Name, got)
		}
	}
}

// The peak of memory that several threads allocate is judged like a time, in the figures, rows and conditions.
func TestPeakOfThreads(t *testing.T) {
	t.Parallel()
	run := func(peak, threads int) []*Run {
		return []*Run{readRun(t, "run", fmt.Sprintf(`{"version": 1, "logs": [{"name": "l", "complete": true, "memory_source": "calls", "peak_device_bytes": %[1]d}], "memory": [
			{"name": "device", "pid": 1, "gpu": 0, "peak_bytes": %[1]d, "allocations": 1, "not_freed": 1, "threads": %[2]d}]}`, peak, threads))}
	}
	for threads, want := range map[int]struct {
		words []string
		state State
	}{
		1: {[]string{"memory device of GPU 0: larger peak", "peak_memory: more"}, Failed},
		2: {nil, Broken},
	} {
		d := Compare(run(10, 1), run(20, threads), rule)
		got := words(d)
		for _, o := range d.Overall {
			if o.Verdict != "" {
				got = append(got, o.Name+": "+o.Verdict)
			}
		}
		if !slices.Equal(got, want.words) {
			t.Errorf("%d threads: %q", threads, got)
		}
		for _, text := range []string{"peak_memory > +5%", "memory:device:peak > +5%"} {
			if got := d.Gate(conditionsOf(t, text), false); len(got) != 1 || got[0].State != want.state {
				t.Errorf("%d threads: %s: %+v", threads, text, got[0])
			}
		}
	}
}

// Rows that differ by their processes alone are one.
func TestProcesses(t *testing.T) {
	t.Parallel()
	const head = `{"version": 1, "logs": [{"name": "l", "complete": true, "gpu_source": "cupti"}], "memory": [`
	one := readRun(t, "one", head+`{"name": "device", "pid": 1, "gpu": 0, "peak_bytes": 10, "allocations": 1, "not_freed": 1}]}`)
	two := readRun(t, "two", head+`{"name": "device", "pid": 7, "gpu": 0, "peak_bytes": 4, "allocations": 1, "not_freed": 0},
		{"name": "device", "pid": 8, "gpu": 0, "peak_bytes": 6, "allocations": 0, "not_freed": 1}]}`)
	d := Compare([]*Run{one}, []*Run{two}, rule)
	if got := words(d); got != nil {
		t.Errorf("%v", got)
	}
}

// Operators are compared by name and kind where nearly all GPU time of each run is theirs.
func TestOperators(t *testing.T) {
	t.Parallel()
	run := func(gpu int, operators ...string) []*Run {
		var rows []string
		for _, o := range operators {
			f := strings.Fields(o)
			rows = append(rows, fmt.Sprintf(`{"name": %q, "kind": %q, "count": %s, "total_ns": %s}`, f[0], f[1], f[2], f[3]))
		}
		return []*Run{readRun(t, "run", fmt.Sprintf(`{"version": 1, "logs": [{"name": "l", "complete": true, "gpu_source": "cupti"}],
			"kernels": [{"name": "k", "count": 1, "total_ns": %d}], "copies": [{"name": "HtoD", "count": 1, "total_ns": 100}], "sets": [], "operators": [%s]}`, gpu, strings.Join(rows, ",")))}
	}
	base := run(900, "aten::mm operator 10 600", "aten::add operator 4 390", "step range 2 10", "step operator 1 0")
	for name, c := range map[string]struct {
		new  []*Run
		want string
	}{
		"the same":  {base, ""},
		"one more":  {run(900, "aten::mm operator 11 600", "aten::add operator 4 390", "step range 2 10", "step operator 1 0"), "aten::mm: more"},
		"another":   {run(900, "aten::mm operator 10 600", "aten::mul operator 4 390", "step range 2 10", "step operator 1 0"), "aten::mul: new, aten::add: gone"},
		"by kind":   {run(900, "aten::mm operator 10 600", "aten::add operator 4 390", "step range 3 10", "step operator 1 0"), "step: more"},
		"in a part": {run(1400, "aten::mm operator 10 600", "aten::add operator 4 390", "step range 2 10"), "they are known of 66.7 % of the GPU time (record --pytorch on)"},
		"none":      {run(900), "no section"},
	} {
		got := "no section"
		for _, s := range Compare(base, c.new, rule).Sections {
			if s.Report != "operators" {
				continue
			}
			texts := []string{}
			for _, r := range s.Rows {
				if len(r.Verdicts) > 0 {
					texts = append(texts, r.Name+": "+strings.Join(r.Verdicts, ", "))
				}
			}
			got = s.Reason + strings.Join(texts, ", ")
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A rank that the others wait for is the same straggler whatever shows it: that it comes late, computes longer, or runs a
// kernel alone.
func TestStragglerOfAnyKind(t *testing.T) {
	t.Parallel()
	run := func(kind, gpu string, rank int) *Run {
		return readRun(t, "run", fmt.Sprintf(`{"version": 1, "logs": [{"name": "l", "complete": true}], "ranks": [{"rank": 0}, {"rank": 1}],
			"findings": [{"name": %q, "gpu": %s, "rank": %d, "title": "slow", "pid": 5}]}`, kind, gpu, rank))
	}
	late, longer, alone := run("straggling_rank", "null", 1), run("compute_imbalance", "0", 1), run("odd_kernel", "0", 1)
	for _, pair := range [][2]*Run{{late, longer}, {longer, late}, {alone, late}} {
		if got := otherStragglers([]*Run{pair[0]}, []*Run{pair[1]}); len(got) != 0 {
			t.Errorf("%v", got)
		}
	}
	if got := otherStragglers([]*Run{late, longer}, []*Run{run("odd_kernel", "0", 0)}); len(got) != 2 ||
		got[0].Text != "BASE has a straggler that NEW has not, in 2 of 2 runs: slow" || got[1].Text != "NEW has a straggler that BASE has not: slow" {
		t.Errorf("%v", got)
	}
}
