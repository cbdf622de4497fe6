package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// callerLog writes a log whose calls name their callers.
func callerLog(t *testing.T) string { return textLog(t, "callers") }

// textLog writes a log that convert has in text form.
func textLog(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile("../../convert/testdata/" + name + ".log.txt"))(t)
	log := must.Get(logtest.Assembled(string(text)))(t)
	path := filepath.Join(t.TempDir(), filepath.Base(name)+".cudatrace")
	must.Do(t, os.WriteFile(path, log, 0o600))
	return path
}

// A trace of the calls of some callers has these and the GPU work that they caused.
func TestConvertCaller(t *testing.T) {
	t.Parallel()
	log := callerLog(t)
	for glob, want := range map[string]string{
		"libcublasLt*": "cuLaunchKernel, cuLaunchKernel, gemm",
		"*step*":       "cudaMalloc, cudaMemcpy, cuLibraryGetKernel, cudaLaunchKernel, Memcpy HtoD, plain",
		"app: main*":   "cudaGraphLaunch, plain",
	} {
		trace, said := converted(t, log, "--caller", glob)
		tr := tptest.Open(t, trace)
		tptest.NoErrors(t, tr)
		var names []string
		for _, row := range tr.Values("select name from slice where coalesce(category, '') not in ('program', 'python') order by id in (select id from gpu_slice), ts") {
			names = append(names, fmt.Sprint(row...))
		}
		goldentest.Same(t, want, strings.Join(names, ", "), "%s", glob)
		if !strings.Contains(said, "by name, duration, thread, caller, Python frame or NVTX range") {
			t.Errorf("%s: said %q", glob, said)
		}
	}
}

// As many calls of each function are counted as by probes at each function of the runtime, also of a function that makes several
// calls of the driver's.
func TestCountsOfCalls(t *testing.T) {
	t.Parallel()
	byDefault := map[string]bool{}
	for _, f := range cudaapi.Functions(cudaapi.Default) {
		byDefault[f.Name] = true
	}
	for _, program := range [][]string{{"functions"}, {"many", "--no-errors"}, {"graphs"}, {"nvcc", "-n", "500"}} {
		t.Run(program[0], func(t *testing.T) {
			t.Parallel()
			args := append([]string{sim(program[0])}, program[1:]...)
			want := maps.Clone(recordShared(t, append([]string{"--api", "all"}, args...)...).Functions)
			got := recordShared(t, args...)
			if n := want["__cudaLaunchKernel"]; n > 0 { // by which nvcc launches
				want["cudaLaunchKernel"] += n
			}
			maps.DeleteFunc(want, func(name string, _ uint64) bool {
				return !byDefault[name] && got.Functions[name] == 0
			})
			if diff := cmp.Diff(want, got.Functions); diff != "" || got.Calls == 0 {
				t.Errorf("%d calls (-want +got):\n%s", got.Calls, diff)
			}
		})
	}
}

// Every call of several processes has its caller, whether they run at the same time or one after another: none costs another
// its callers when it starts, unloads a library or ends.
func TestCallersOfProcesses(t *testing.T) {
	t.Parallel()
	add := sim("vectoradd")
	programs := map[string][]string{
		"by turns":          {sim("byturns"), "-w", "8"},
		"at the same time":  {"sh", "-c", strings.Repeat(add+" & ", 8) + "wait"},
		"one after another": {"sh", "-c", strings.Repeat(add+"; ", 8)},
	}
	for name, program := range programs {
		for _, source := range []string{"uprobe", "cupti"} {
			if source == "cupti" && name != "at the same time" {
				continue // chains are each process's own
			}
			t.Run(name+" "+source, func(t *testing.T) {
				t.Parallel()
				r := recordProgram(t, append([]string{"--no-convert", "--calls", source}, program...)...)
				if c := r.Callers; !r.Complete || r.ProcessCount != 8 || c == nil || c.Unknown != 0 || c.Known == 0 {
					t.Errorf("complete %t, %d processes, callers %+v\n%s", r.Complete, r.ProcessCount, c, r.stderr)
				}
			})
		}
	}
}

func TestInfoCallers(t *testing.T) {
	t.Parallel()
	stdout, _ := succeed(t, "info", callerLog(t))
	if !regexp.MustCompile(`(?m)^callers +85\.7 % of calls \(not of 2\)$`).Match([]byte(stdout)) {
		t.Errorf("info says\n%s", stdout)
	}
}

// Launches whose kernel is unknown are counted in a line of the summary.
func TestUnnamedLaunches(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]convert.Summary{
		"": {Launches: 3},
		"1 of 1,000 launches has no kernel name: ": {Launches: 1000, Unnamed: 1},
		"2 of 3 launches have no kernel name: ":    {Launches: 3, Unnamed: 2},
	} {
		if got := unnamed(s); (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%d of %d: %q, want %q", s.Unnamed, s.Launches, got, want)
		}
	}
}

// A trace of the calls below some Python frames has these and their GPU work.
func TestPythonFilter(t *testing.T) {
	t.Parallel()
	log := textLog(t, "python")
	for glob, want := range map[string]string{
		"train.py:7":     "cuLaunchKernel, plain",
		"main":           "cuLaunchKernel, cudaLaunchKernel, cuLaunchKernel, plain, plain",
		"*/torch/nn/*":   "cuLaunchKernel, plain",
		"threading.py:*": "cuLaunchKernel, plain",
	} {
		trace, _ := converted(t, log, "--python", glob)
		tr := tptest.Open(t, trace)
		tptest.NoErrors(t, tr)
		var names []string
		for _, row := range tr.Values("select name from slice where coalesce(category, '') not in ('program', 'python') order by id in (select id from gpu_slice), ts") {
			names = append(names, fmt.Sprint(row...))
		}
		goldentest.Same(t, want, strings.Join(names, ", "), "%s", glob)
	}
	for _, command := range []string{"convert", "stats"} {
		for glob, want := range map[string]string{"nowhere.py": "matches --python nowhere.py", "[": `--python "[" is not a pattern`} {
			var stdout, stderr bytes.Buffer
			if code := run([]string{"cudatrace", command, log, "--python", glob}, &stdout, &stderr); code == 0 || !strings.Contains(stderr.String(), want) {
				t.Errorf("%s --python %s: exit code %d\n%s", command, glob, code, &stderr)
			}
		}
	}
}
