package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A mode is a way of recording, by what a person may use.
type mode struct {
	what   string
	flags  []string
	probes bool // calls by uprobes
	gpu    bool
}

var (
	everything = mode{"probes and CUPTI", nil, true, true}
	noProbes   = mode{"CUPTI, no rights for probes", []string{"--calls", "cupti"}, false, true}
	noCUPTI    = mode{"probes, no CUPTI", []string{"--gpu", "none"}, true, false}
)

// kinds are the kinds of program, each as a program of the simulated stack that says what it issued. also are the
// modes in which it is recorded beside the default; without probes record/internal/cupti's TestChains has the other kinds.
var kinds = []struct {
	what      string
	args      []string // "sh" and "-c" run a shell, other names are of build/sim/bin
	processes int
	threads   int
	execs     bool // after CUDA work, which without probes is lost as far as it was not handed over
	also      []mode
}{
	{"runtime shared", []string{"many", "--no-errors"}, 1, 1, false, nil},
	{"runtime static", []string{"many-static", "--no-errors"}, 1, 1, false, nil},
	{"runtime static, stripped", []string{"static-stripped", "--no-errors"}, 1, 1, false, nil},
	{"runtime bundled under another path", []string{"bundled", "--no-errors"}, 1, 1, false, nil},
	{"driver only", []string{"driveronly"}, 1, 1, false, nil},
	{"libraries opened late with dlopen", []string{"late"}, 1, 1, false, []mode{noCUPTI}},
	{"several runtimes in one process", []string{"tworuntimes"}, 1, 1, false, nil},
	{"many threads, which end before the program", []string{"threads", "-t", "8", "-n", "500"},
		1, 8, false, []mode{noProbes}},
	{"children and grandchildren (fork, exec)", []string{"forkexec"}, 3, 3, false, []mode{noCUPTI}},
	{"programs replaced by exec, from any thread", []string{"replaced"}, 3, 4, true, []mode{noProbes, noCUPTI}},
	{"workers on one GPU with equal stream and correlation ids", []string{"workers", "-w", "3"},
		3, 3, false, []mode{noProbes}},
	{"a shell script that starts programs", []string{"sh", "-c", "$SIM/threads -t 2 -n 50; $SIM/driveronly"},
		2, 3, false, nil},
	{"a fork after CUDA's start", []string{"forkafter"}, 1, 1, false, nil},
	{"CUDA graphs", []string{"graphs", "-n", "20"}, 1, 1, false, []mode{noProbes}},
}

// issued sums what the processes of a program say that they issued.
func issued(t *testing.T, stdout string) (work [3]uint64) {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^counts pid=.*$`).FindAllString(stdout, -1)
	if lines == nil {
		lines = regexp.MustCompile(`(?m)^counts .*$`).FindAllString(stdout, -1)
	}
	if lines == nil {
		t.Fatalf("the program did not print its counts:\n%s", stdout)
	}
	for _, line := range lines {
		for i, what := range []string{"kernels", "copies", "sets"} {
			m := regexp.MustCompile(what + `=(\d+)`).FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("no %s in %q", what, line)
			}
			n := must.Get(strconv.ParseUint(m[1], 10, 64))(t)
			work[i] += n
		}
	}
	return work
}

// TestKinds records every kind of program, and holds the list of docs/coverage.md against them.
func TestKinds(t *testing.T) {
	t.Parallel()
	holdCoverage(t)
	for i, k := range kinds {
		t.Run(strings.ReplaceAll(k.what, " ", "_"), func(t *testing.T) {
			t.Parallel()
			if r := recordKind(t, i, everything); i == 0 || r.ThreadCount > 1 || strings.Contains(k.what, "graph") {
				checkTrace(t, &r) // of programs that differ in how they find CUDA alone it is like the first one's
			}
		})
		for _, m := range k.also {
			t.Run(strings.ReplaceAll(k.what+"/"+m.what, " ", "_"), func(t *testing.T) {
				t.Parallel()
				recordKind(t, i, m)
			})
		}
	}
}

// recordKind records one kind in one mode.
func recordKind(t *testing.T, kind int, m mode) recording {
	t.Helper()
	k := kinds[kind]
	args := slices.Clone(m.flags)
	for i, a := range k.args {
		if i == 0 && a != "sh" {
			a = sim(a)
		}
		args = append(args, strings.ReplaceAll(a, "$SIM", filepath.Join(simStack, "bin")))
	}
	r := recordShared(t, args...)
	work := issued(t, r.stdout)
	if k.execs && !m.probes {
		if got := [3]uint64{r.Kernels, r.Copies, r.Memsets}; r.Complete || !strings.Contains(r.stderr, ", by exec") || r.ProcessCount != k.processes || got[0] == 0 || got[0] > work[0] {
			t.Errorf("complete %t %q, %d processes; recorded %d kernels, copies, memsets of %d\n%s", r.Complete, r.Reasons, r.ProcessCount, got, work, r.stderr)
		}
		return r
	}
	if !r.Complete || lostWork(&r.Summary) != 0 || r.Unmatched != 0 || r.Early != 0 || r.Failed != 0 {
		t.Errorf("complete %t %q, lost %v, unmatched %d, early %d, failed %d", r.Complete, r.Reasons, r.Lost, r.Unmatched, r.Early, r.Failed)
	}
	if r.ProcessCount != k.processes || r.ThreadCount != k.threads {
		t.Errorf("%d processes, %d threads; want %d and %d", r.ProcessCount, r.ThreadCount, k.processes, k.threads)
	}
	if got := [3]uint64{r.Kernels, r.Copies, r.Memsets}; m.gpu && got != work {
		t.Errorf("recorded %d kernels, copies, memsets; the program issued %d", got, work)
	}
	if m.probes == (r.Pairs == 0) || m.gpu == (r.Kernels == 0) {
		t.Errorf("%d uprobe pairs, %d kernels", r.Pairs, r.Kernels)
	}
	if t.Failed() {
		t.Log(r.stderr)
	}
	return r
}

// checkTrace reads the recording's trace with the real trace processor.
func checkTrace(t *testing.T, r *recording) {
	t.Helper()
	tr := r.trace(t)
	work := r.Kernels + r.Copies + r.Memsets
	expectRows(t, tr, work, "GPU slices", "select count(*) from gpu_slice")
	expectRows(t, tr, work+r.Waits, "arrows", allArrows)
	checkArrows(t, tr)
	if r.ProcessCount > 1 { // chromesink's tests hold the rest of the format
		checkChrome(t, r.base+".cudatrace", tr, r.Early)
	}
}

// holdCoverage compares the list in the docs with the kinds of program.
func holdCoverage(t *testing.T) {
	t.Helper()
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "- %s\n", k.what)
	}
	goldentest.Section(t, filepath.Join(root, "docs", "coverage.md"), "<!-- kinds -->\n", "<!-- end -->", b.String())
}

// TestCapturedCalls checks that the nodes of captured graphs have their calls, after an update too, and those of a graph that is built
// node by node have none.
func TestCapturedCalls(t *testing.T) {
	t.Parallel()
	r := recordShared(t, sim("graphs"), "-n", "20")
	want := convert.GraphNodes{Named: 20 * 4, Unsure: 4 * 3}
	if r.GraphNodes == nil || *r.GraphNodes != want {
		t.Errorf("%+v, want %+v", r.GraphNodes, want)
	}
}
