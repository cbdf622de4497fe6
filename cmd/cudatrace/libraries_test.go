package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// Functions of a library and of the program lie around and within calls of CUDA on the tracks of their threads, also of one that makes no
// such call, with arguments and what they return. They count as no calls. The program does what it does without.
func TestFunctionsOfLibraries(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "run")
	run := func(args ...string) string {
		t.Helper()
		out := must.Run(t, exec.Command("cudatrace", args...))
		return string(out)
	}
	said := run("record", "-o", base, "--probe", "libcoll:coll*/3", "--probe", "coll:train_step/2", "--probe", "coll:check_*/1", "--no-probe", "libcoll:collInit", "--probe", "libnone.so:f", sim("coll"), "-n", "3")
	if !strings.Contains(said, "counts kernels=9 copies=1 sets=2\ncoll failed=3\n") || !strings.Contains(said, "no file of the recorded processes has a function that libnone.so:f selects") {
		t.Errorf("said\n%s", said)
	}
	tr := tptest.Open(t, base+".pftrace")
	tptest.NoErrors(t, tr)
	got := fmt.Sprint(tr.Values(`select s.name, depth, extract_arg(s.arg_set_id, 'debug.library'), extract_arg(s.arg_set_id, 'debug.arg2'), extract_arg(s.arg_set_id, 'debug.returns')
		from slice s join thread_track k on s.track_id = k.id join thread t using (utid)
		where t.is_main_thread and (category = 'function' or s.name = 'cudaLaunchKernel') order by ts limit 7`))
	if want := "[[train_step 0 coll <nil> 1] [cudaLaunchKernel 1 <nil> <nil> <nil>] [collAllReduce 1 libcoll.so.2 1024 0] [cudaLaunchKernel 2 <nil> <nil> <nil>] " +
		"[collAllReduce 1 libcoll.so.2 1024 0] [cudaLaunchKernel 2 <nil> <nil> <nil>] [collAllReduce 1 libcoll.so.2 0 4]]"; got != want {
		t.Errorf("the trace has\n%s\nnot\n%s", got, want)
	}
	if n := tr.Int(`select count(*) from slice s join thread_track k on s.track_id = k.id join thread t using (utid) where not t.is_main_thread and s.name = 'check_gradient'`); n != 3 {
		t.Errorf("the thread has %d functions", n)
	}
	csv := run("stats", "--with-startup", "--format", "csv", "--report", "library_functions", base+".cudatrace")
	counts := map[string]string{}
	for line := range strings.Lines(csv) {
		words := strings.Split(line, ",")
		counts[words[0]] = words[1] + " " + words[2]
	}
	want := map[string]string{"name": "library count", "train_step": "coll 3", "collAllReduce": "libcoll.so.2 9", "collFinish": "libcoll.so.2 1", "check_gradient": "coll 3"}
	goldentest.Same(t, want, counts, "functions")
	if calls := run("stats", "--format", "csv", "--report", "calls", base+".cudatrace"); strings.Contains(calls, "coll") || !strings.Contains(calls, "cudaLaunchKernel") {
		t.Errorf("calls:\n%s", calls)
	}
	if info := run("info", base+".cudatrace"); strings.Contains(info, "collAllReduce") || !strings.Contains(info, "--probe libcoll:coll*/3") {
		t.Errorf("info:\n%s", info)
	}
}

// What --probe and --no-probe do not understand is said, with the remedy.
func TestFunctionsOfLibrariesMisnamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		said string
	}{
		{[]string{"record", "--probe", "libx:f/9", "true"}, "--probe libx:f/9: behind / there must be entry, or a number of arguments from 0 to 6"},
		{[]string{"record", "--probe", ":f", "true"}, "--probe :f: it must be FILE:GLOB"},
		{[]string{"record", "--probe", "libx:f[", "true"}, "--probe libx:f[: a [ lacks its ]"},
		{[]string{"record", "--no-probe", "libx:f", "true"}, "--no-probe libx:f leaves out functions that no --probe FILE:GLOB names"},
		{[]string{"probes", "--probe", "libx:f"}, "FILE:GLOB is for 'cudatrace record', which looks at the files that the program loads"},
	} {
		cmd := exec.Command("cudatrace", c.args...)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), c.said) {
			t.Errorf("%q: %v\n%s", c.args, err, out)
		}
	}
}
