package diff

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
)

// TestGate has the results of conditions: the state, and the row or the reason.
func TestGate(t *testing.T) {
	t.Parallel()
	base, new := logtest.Steps{Seed: 100, Noise: 0.005}, logtest.Steps{Seed: 200, Noise: 0.005, Longer: 0.1, Malloc: true}
	one := Compare(runsOf(t, 1, base), runsOf(t, 1, new), rule)
	five := Compare(runsOf(t, 5, base), runsOf(t, 5, new), rule)
	untested := Compare(runsOf(t, 1, base), runsOf(t, 1, new), Rule{Untested: true})
	for _, c := range []struct {
		of   *Diff
		text string
		want string
	}{
		{one, "calls:cudaMalloc > 0", "failed cudaMalloc 39"},
		{one, "calls:cudaMalloc > +0", "failed cudaMalloc 39"},
		{one, "calls:cudaMalloc > +1000%", "failed cudaMalloc +Inf"},
		{one, "calls:cudaFree > +5%", "failed cudaFree +Inf"}, // it is new
		{one, "calls:cudaStreamSynchronize > 0", "passed cudaStreamSynchronize 0"},
		{one, "calls:cudaStreamSynchronize > +0", "passed cudaStreamSynchronize 0"},
		{one, "calls:cudaFreeAsync > 0", `broken nothing in calls matches "cudaFreeAsync", and no function of that name was probed in all runs`},
		{one, "calls:cudaFree:failed > 0", "passed cudaFree 0"},
		{one, "kernel:gemm* > 0", `broken nothing in kernels matches "gemm*"`},
		{one, "kernel:step*:count < 39", "passed step<0> 39"},
		{one, "kernel_time > 1h", "passed 9.1"},
		{one, "kernel_time > 1us", "failed 9.1"},
		{one, "kernel_time > +5%", "broken a change of a figure that varies needs 4 runs on each side (BASE has 1, NEW has 1), or --significance none"},
		{one, "kernel_count > +0", "passed 0"},
		{one, "peak_memory > +512K", "failed 1.0486e+06"},
		{one, "peak_memory > 2GiB", "passed 5.2429e+06"},
		{one, "gpu_busy < 80%", "failed 0.4"},
		{one, "gpu_busy > 80%", "passed 0.4"},
		{one, "copy:HtoD:bytes > 1M", "failed HtoD Pinned to Device 2.5559e+06"},
		{one, "copy:HtoD:gbps < 10", "passed HtoD Pinned to Device 2"},
		{one, "device:*:busy_share < 80%", "failed GPU 0: NVIDIA H200 0.4"},
		{one, "errors:* > 0", "passed * 0"},
		{one, "sets:*:median > 1ms", `broken nothing in sets matches "*"`},
		{five, "kernel_time > +5%", "passed 0.0"},
		{five, "kernel_time > +1%", "passed 0.0"}, // one kernel of eight is longer
		{five, "kernel:step*:median > +8%", "failed step<2> 0.09"},
		{five, "kernel:step*:median > +20%", "passed step<2> 0.09"},
		{five, "kernel:step*:total > +5us", "failed step<2>"},
		{five, "gpu_busy < -20%", "failed -0.4"},
		{five, "calls:cudaMalloc > +0", "failed cudaMalloc 39"},
		{five, "nvtx:step:median > +50%", "failed step 1"},
		{five, "memory:device:peak > +0", "failed device of GPU 0 1.0486e+06"},
		{untested, "kernel:step*:median > +8%", "failed step<2> 0.09"},
		{untested, "kernel_time > +100%", "passed 0.0"},
	} {
		o := c.of.Gate(conditionsOf(t, c.text), false)[0]
		got := string(o.State) + " "
		if o.Why != "" {
			got += o.Why
		} else {
			got += strings.TrimPrefix(fmt.Sprintf("%s %.5g", o.Cases[0].Name, o.Cases[0].Value), " ")
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}

// A name that matches nothing passes where that is allowed.
func TestAbsent(t *testing.T) {
	t.Parallel()
	runs := runsOf(t, 2, logtest.Steps{})
	d := Compare(runs[:1], runs[1:], rule)
	for allowed, want := range map[bool]State{false: Broken, true: Absent} {
		if o := d.Gate(conditionsOf(t, "kernel:gemm* > 0"), allowed)[0]; o.State != want || !strings.HasPrefix(o.Verdict(), `nothing in kernels matches "gemm*"`) || strings.HasSuffix(o.Verdict(), "; --allow-missing passes the condition then") == allowed {
			t.Errorf("allowed %t: %s, %s", allowed, o.State, o.Verdict())
		}
	}
}

// What was not recorded is not zero.
func TestUnknown(t *testing.T) {
	t.Parallel()
	const without = `{"version": 1, "logs": [{"name": "l", "complete": true, "gpu_source": "none"}], "reasons": {"kernels": "GPU work was not recorded: no libcupti"},
		"kernels": [], "memory": [], "calls": [{"name": "cudaMalloc", "library": "runtime", "count": 3, "median_ns": null}]}`
	r := readRun(t, "x.json", without)
	d := Compare([]*Run{r}, []*Run{r}, rule)
	for text, want := range map[string]string{
		"kernel_time > 1ms":            "broken x.json: GPU work was not recorded: no libcupti",
		"kernel:*:median > 1ms":        "broken x.json: GPU work was not recorded: no libcupti",
		"peak_memory > 1G":             "broken x.json: GPU work was not recorded",
		"set_time > 1ms":               "broken the report sets is not in x.json",
		"calls:cudaMalloc:median > 5s": "broken the figure is not known",
		"calls:cudaMalloc > 3":         "passed ",
	} {
		if o := d.Gate(conditionsOf(t, text), false)[0]; string(o.State)+" "+o.Why != want {
			t.Errorf("%s: %s %s, want %s", text, o.State, o.Why, want)
		}
	}
}

// kernelRuns are runs with one kernel, which takes these times.
func kernelRuns(t *testing.T, name string, count int, times ...int) (all []*Run) {
	t.Helper()
	for _, ns := range times {
		all = append(all, readRun(t, "run", fmt.Sprintf(`{"version": 1, "logs": [{"name": "l", "complete": true, "gpu_source": "cupti"}],
			"kernels": [{"name": "%s", "count": %d, "total_ns": %d, "median_ns": %d}], "calls": [{"name": "f", "library": "x", "count": %d}]}`, name, count, ns, ns, ns)))
	}
	return all
}

// Of counts the worst run decides, of times the mean; a change must be significant.
func TestRunsOfGate(t *testing.T) {
	t.Parallel()
	base := kernelRuns(t, "k", 10, 1000, 1100, 900, 1000)
	for _, c := range []struct {
		new  []int
		text string
		want State
	}{
		{[]int{1000, 1000, 1001, 1000}, "calls:f > 1000", Failed},
		{[]int{1000, 1000, 1001, 1000}, "calls:f < 1000", Passed},
		{[]int{1000, 1000, 999, 1000}, "calls:f < 1000", Failed},
		{[]int{1000, 1000, 999, 1000}, "calls:f > 1000", Passed},
		{[]int{1000, 1000, 1001, 1000}, "kernel:k:total > 1us", Failed},
		{[]int{1000, 1000, 1001, 980}, "kernel:k:total > 1us", Passed},
		{[]int{1150, 1050, 1250, 1150}, "kernel_time > +5%", Passed}, // 15 %, but the runs vary
		{[]int{1550, 1450, 1650, 1550}, "kernel_time > +5%", Failed},
		{[]int{1550, 1450, 1650, 1550}, "kernel_time > +60%", Passed},
		{[]int{550, 450, 650, 550}, "kernel_time < -5%", Failed},
		{[]int{550, 450, 650, 550}, "kernel_time > +5%", Passed},
	} {
		d := Compare(base, kernelRuns(t, "k", 10, c.new...), rule)
		if o := d.Gate(conditionsOf(t, c.text), false)[0]; o.State != c.want {
			t.Errorf("%v, %s: %s (%s)", c.new, c.text, o.State, o.Why)
		}
	}
}

// Kernels that differ in their template arguments are one only if they are launched equally often.
func TestRenamedCount(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]string{10: "template", 11: ""} {
		d := Compare(kernelRuns(t, "gemm<64>", 10, 5), kernelRuns(t, "gemm<128>", count, 5), rule)
		if got := d.Sections[0].Rows[0].Match; got != want {
			t.Errorf("%d launches: matched by %q, want %q", count, got, want)
		}
	}
}

// Rows of one name in several threads are added up; what cannot be added is not known.
func TestAddedRows(t *testing.T) {
	t.Parallel()
	r := readRun(t, "x", `{"version": 1, "logs": [{"name": "l", "complete": true, "gpu_source": "cupti"}], "waits": [
		{"name": "f", "waited_for": "s", "tid": 1, "count": 2, "total_ns": 10, "min_ns": 4, "median_ns": 5, "max_ns": 6},
		{"name": "f", "waited_for": "s", "tid": 2, "count": 1, "total_ns": 7, "min_ns": 7, "median_ns": 7, "max_ns": 7, "blocked_ns": 3}]}`)
	d := Compare([]*Run{r}, []*Run{r}, rule)
	for text, want := range map[string]string{"waits:f > 0": "3", "waits:f:total > 0": "17", "waits:f:min > 0": "4", "waits:f:max > 0": "7", "waits:f:blocked > 0": "3",
		"waits:f:median > 0": "NaN"} {
		if o := d.Gate(conditionsOf(t, text), false)[0]; fmt.Sprint(o.Cases[0].Value) != want {
			t.Errorf("%s: %v, want %s", text, o.Cases[0].Value, want)
		}
	}
}
