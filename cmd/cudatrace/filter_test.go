package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

// converted runs convert and returns the trace's path and what was said.
func converted(t *testing.T, args ...string) (trace, said string) {
	t.Helper()
	trace = filepath.Join(t.TempDir(), "x.pftrace")
	var stdout, stderr bytes.Buffer
	args = append([]string{"cudatrace", "convert", "-o", trace}, args...)
	if code := run(args, &stdout, &stderr); code != 0 || stdout.Len() > 0 {
		t.Fatalf("%q: exit code %d\n%s%s", args, code, &stdout, &stderr)
	}
	return trace, stderr.String()
}

// kernelsOf counts the kernels of a log that a condition holds for; begin is that of the recording.
func kernelsOf(t *testing.T, path string, holds func(k *tracelog.Kernel, begin uint64) bool) (n int64) {
	t.Helper()
	r, err := tracelog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, err := tracelog.Begin(r)
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	if r, err = tracelog.Open(path); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for r.Next() {
		for i := range r.Block().N {
			var k tracelog.Kernel
			if r.Block().Kind != tracelog.KindKernel {
				break
			}
			if k.Read(r.Block(), i); holds(&k, begin) {
				n++
			}
		}
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return n
}

// TestFilters makes traces of parts of a log from a real GPU: Perfetto finds what is
// asked for, as a reading of the whole log counts it.
func TestFilters(t *testing.T) {
	t.Parallel()
	const kernels, calls = "select count(*) from gpu_slice where render_stage_category = 2", "select count(*) from slice s join thread_track k on s.track_id = k.id"
	for args, c := range map[string]struct {
		kernel func(k *tracelog.Kernel, begin uint64) bool
		calls  int64 // -1 is any number
	}{
		"":                   {func(*tracelog.Kernel, uint64) bool { return true }, 879},
		"--stream 13,14":     {func(k *tracelog.Kernel, _ uint64) bool { return k.Stream == 13 || k.Stream == 14 }, 879},
		"--device 0":         {func(k *tracelog.Kernel, _ uint64) bool { return k.Device == 0 }, 879},
		"--pid 3147":         {func(k *tracelog.Kernel, _ uint64) bool { return k.PID == 3147 }, 879},
		"--min-duration 2us": {func(k *tracelog.Kernel, _ uint64) bool { return k.Dur >= 2000 }, -1},
		"--name *axpy*":      {func(k *tracelog.Kernel, _ uint64) bool { return strings.Contains(k.Name, "axpy") }, 0},
		"--name addOne --stream 13": {func(k *tracelog.Kernel, _ uint64) bool {
			return k.Stream == 13 && strings.Contains(k.Name, "addOne")
		}, 0},
		"--from 386813522ns --to 387291439ns": {func(k *tracelog.Kernel, begin uint64) bool {
			return k.Start <= begin+387291439 && k.Start+k.Dur >= begin+386813522
		}, 205},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			trace, said := converted(t, append(strings.Fields(args), gpuLog)...)
			tr := tptest.Open(t, trace)
			tptest.NoErrors(t, tr)
			want := kernelsOf(t, gpuLog, c.kernel)
			if got := tr.Int(kernels); got != want {
				t.Errorf("%d kernels, want %d", got, want)
			}
			got := tr.Int(calls)
			if c.calls >= 0 && got != c.calls {
				t.Errorf("%d calls, want %d", got, c.calls)
			}
			if part := want < 180 || got < 879; part != strings.Contains(said, "left out") || strings.Contains(said, "not complete") {
				t.Errorf("said %q", said)
			}
		})
	}
}

// TestFilterIsNoLoss: what a time leaves out is not said to be missing. TestFilters says so of the other filters.
func TestFilterIsNoLoss(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"--from=last 250ms", "--from=387ms", "--to=387ms"} {
		if _, said := converted(t, gpuLog, filter); strings.Contains(said, "not complete") {
			t.Errorf("%s: %s", filter, said)
		}
	}
}

// TestFilterMaxSlices cuts a log to a number of slices: the trace has what is newest, and is not
// much smaller than it may be.
func TestFilterMaxSlices(t *testing.T) {
	t.Parallel()
	log := filepath.Join(filepath.Dir(gpuLog), "train.cudatrace")
	trace, said := converted(t, log, "--max-slices", "20K")
	if !strings.Contains(said, "kept the newest ") || !strings.Contains(said, "; left out ") {
		t.Errorf("said %s", said)
	}
	tr := tptest.Open(t, trace)
	tptest.NoErrors(t, tr)
	first, last := uint64(tr.Int("select min(ts) from gpu_slice")), uint64(tr.Int("select max(ts) from gpu_slice"))
	kernels := tr.Int("select count(*) from gpu_slice where render_stage_category = 2")
	var newest uint64
	kernelsOf(t, log, func(k *tracelog.Kernel, _ uint64) bool { newest = max(newest, k.Start); return false })
	if m := regexp.MustCompile(`, (1[5-9]|20),(\d{3}) slices`).FindStringSubmatch(said); m == nil || m[1] == "20" && m[2] != "000" {
		t.Errorf("said %s", said)
	}
	span := last - first
	if want := kernelsOf(t, log, func(k *tracelog.Kernel, _ uint64) bool { return k.Start+span >= newest }); kernels < want*9/10 || kernels > want*11/10 {
		t.Errorf("%d kernels in the newest %d ns, the log has %d", kernels, span, want)
	}
}

// rank is the log of a process that makes one call, 5 ms into a recording that began at a
// time of day, on a host whose clock began with another number.
func rank(t *testing.T, host string, monotonic, realtime uint64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), host+".cudatrace")
	w, err := createLog(path)
	if err != nil {
		t.Fatal(err)
	}
	enter := monotonic + 5e6
	end, err := logtext.Assemble(strings.NewReader(fmt.Sprintf(`
meta key=host value=%s
function id=1 name=cuLaunchKernel library=driver args=f:handle
process pid=12 ppid=11 start=%[2]d exe=/bin/app args=./app
thread pid=12 tid=12 name=main
clock monotonic=%[2]d realtime=%[3]d boottime=%[2]d
call pid=12 tid=12 func=cuLaunchKernel enter=%[4]d dur=4000 ret=0 args: f=0x10
api pid=12 tid=12 domain=1 cbid=307 name=cuLaunchKernel start=%[4]d dur=4000 correlation=1 ret=0
kernel pid=12 device=0 context=1 stream=7 correlation=1 start=%[5]d dur=3000 name=work grid_x=1 grid_y=1 grid_z=1 block_x=1 block_y=1 block_z=1
end time=%[6]d complete=1 reason=""
`, host, monotonic, realtime, enter, enter+10000, enter+1000000)), w)
	if err == nil {
		err = w.Close(end)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSeveralLogs puts logs of several hosts, with the same PIDs, into one trace: the
// processes stay apart, and their times meet through the wall clocks.
func TestSeveralLogs(t *testing.T) {
	t.Parallel()
	const noon = 1_800_000_000_000_000_000
	a, b, c := rank(t, "node-a", 1e9, noon), rank(t, "node-b", 5e12, noon+2e9), rank(t, "node-c", 3e9, noon-1e9)
	trace, said := converted(t, a, b, c)
	tr := tptest.Open(t, trace)
	tptest.NoErrors(t, tr)
	expectRows(t, tr, 3, "processes", "select count(*) from process where upid in (select upid from thread join thread_track using (utid))")
	expectRows(t, tr, 3, "kernels", "select count(*) from gpu_slice")
	expectRows(t, tr, 3, "arrows", allArrows)
	starts := tr.Values("select ts - (select min(ts) from gpu_slice) from gpu_slice order by ts")
	if fmt.Sprint(starts) != "[[0] [1000000000] [3000000000]]" {
		t.Errorf("the kernels start at %v", starts)
	}
	if n := strings.Count(said, "through the wall clocks of node-"); n != 2 || !strings.Contains(said, "right to what these differ by") {
		t.Errorf("said %s", said)
	}
	if again, _ := converted(t, a, b, c); !sameBytes(t, trace, again) {
		t.Error("the same logs give another trace")
	}
}

func sameBytes(t *testing.T, a, b string) bool {
	t.Helper()
	x, err1 := os.ReadFile(a)
	y, err2 := os.ReadFile(b)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return bytes.Equal(x, y)
}

// TestSeveralLogsOneBroken: what is intact of all logs is in the trace, and the exit code
// says that one is damaged; one that is no log at all makes no trace.
func TestSeveralLogsOneBroken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, err := os.ReadFile(gpuLog)
	if err != nil {
		t.Fatal(err)
	}
	cut, text, trace := filepath.Join(dir, "cut.cudatrace"), filepath.Join(dir, "text.cudatrace"), filepath.Join(dir, "x.pftrace")
	for path, b := range map[string][]byte{cut: whole[:9000], text: []byte("no log, but as long as one has to be")} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"cudatrace", "convert", gpuLog, text, "-o", trace}, &stdout, &stderr); code != exitFailure || !strings.HasSuffix(stderr.String(), "text.cudatrace is not a cudatrace log\n") {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("a trace of what is no log")
	}
	stderr.Reset()
	if code := run([]string{"cudatrace", "convert", gpuLog, cut, "-o", trace}, &stdout, &stderr); code != exitFailure || !strings.Contains(stderr.String(), "cut.cudatrace is not complete: the log ends in the middle of a block at byte 9000") {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
	tr := tptest.Open(t, trace)
	tptest.NoErrors(t, tr)
	if n := tr.Int("select count(*) from gpu_slice where render_stage_category = 2"); n < 180 {
		t.Errorf("%d kernels", n)
	}
}

// TestFilterMatchesNothing: a filter that leaves nothing makes no trace, whatever limits it.
func TestFilterMatchesNothing(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"--process=1", "--ranks=1", "--thread=1", "--stream=99", "--name=x", "--min-duration=1h",
		"--caller=x", "--python=x", "--from=1h", "--to=1ns"} {
		trace := filepath.Join(t.TempDir(), "x.pftrace")
		for _, out := range []string{trace, "-"} {
			var stdout, stderr bytes.Buffer
			code := run([]string{"cudatrace", "convert", gpuLog, "-o", out, filter}, &stdout, &stderr)
			want := strings.Replace(filter, "=", " ", 1) + "; no trace was written\n"
			if code != exitFailure || stdout.Len() > 0 || !strings.HasSuffix(stderr.String(), want) {
				t.Errorf("%s: exit code %d, %d bytes, %s", filter, code, stdout.Len(), &stderr)
			}
		}
		if entries, err := os.ReadDir(filepath.Dir(trace)); err != nil || len(entries) > 0 {
			t.Errorf("%s: %d files, %v", filter, len(entries), err)
		}
	}
}

// createLog begins a log at a path.
func createLog(path string) (*tracelog.Writer, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return tracelog.NewFileWriter(f, tracelog.Options{})
}
