package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
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

// TestFilterIsNoLoss: what a filter leaves out is not said to be missing.
func TestFilterIsNoLoss(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{
		"--stream=13", "--device=0", "--process=3147", "--from=last 250ms", "--from=387ms", "--to=387ms",
		"--name=addOne", "--min-duration=2us",
	} {
		if _, said := converted(t, gpuLog, filter); strings.Contains(said, "not complete") {
			t.Errorf("%s: %s", filter, said)
		}
	}
}

// TestSeveralLogsOneBroken: what is intact of all logs is in the trace, and the exit code
// says that one is damaged; one that is no log at all makes no trace.
func TestSeveralLogsOneBroken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := must.Get(os.ReadFile(gpuLog))(t)
	cut, text, trace := filepath.Join(dir, "cut.cudatrace"), filepath.Join(dir, "text.cudatrace"), filepath.Join(dir, "x.pftrace")
	for path, b := range map[string][]byte{cut: whole[:9000], text: []byte("no log, but as long as one has to be")} {
		must.Do(t, os.WriteFile(path, b, 0o600))
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
	for _, filter := range []string{
		"--process=1", "--ranks=1", "--thread=1", "--device=9", "--stream=99", "--name=x", "--min-duration=1h",
		"--caller=x", "--python=x", "--from=1h", "--to=1ns",
	} {
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

// logOfText writes the log of a text form.
func logOfText(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.cudatrace")
	w := must.Get(createLog(path))(t)
	end := must.Get(logtext.Assemble(strings.NewReader(text), w))(t)
	must.Do(t, w.Close(end))
	return path
}

// TestNVTXFilterSays: what convert and stats say of --nvtx.
func TestNVTXFilterSays(t *testing.T) {
	t.Parallel()
	ranges := logOfText(t, readRepository(t, "convert/testdata/ranges.log.txt"))
	const kept = `: kept what is in NVTX ranges matching "step": 1 range; left out 12 slices by name, duration, thread, caller, Python frame or NVTX range`
	for _, c := range []struct {
		command, log, glob, says string
		code                     int
	}{
		{"convert", ranges, "step", "cudatrace: " + ranges + kept, 0},
		{"stats", ranges, "step", "cudatrace: " + ranges + kept, 0},
		{"convert", ranges, "setp", "cudatrace: no NVTX range of " + ranges + ` matches --nvtx setp; did you mean "step"?; no trace was written`, exitFailure},
		{"stats", ranges, "*setp*", "cudatrace: no NVTX range of " + ranges + ` matches --nvtx *setp*; did you mean "step"?`, exitFailure},
		{"stats", ranges, "decode", "cudatrace: no NVTX range of " + ranges + ` matches --nvtx decode; there are "backward", "forward", "never ends", "no work", "request", 1 other`, exitFailure},
		{"convert", gpuLog, "step", "cudatrace: --nvtx step: " + gpuLog + " has no NVTX ranges; no trace was written", exitFailure},
		{"convert", ranges, "[", `cudatrace: convert: --nvtx "[" is not a pattern: a [ lacks its ], or nothing follows a \; see 'cudatrace help convert'`, exitUsage},
		{"convert", ranges, "", "cudatrace: convert: --nvtx needs a value; see 'cudatrace help convert'", exitUsage},
	} {
		var stdout, stderr bytes.Buffer
		out := filepath.Join(t.TempDir(), "x.pftrace")
		args := []string{"cudatrace", c.command, c.log, "--nvtx", c.glob}
		if c.command == "convert" {
			args = append(args, "-o", out)
		}
		if code := run(args, &stdout, &stderr); code != c.code || !strings.HasSuffix("\n"+stderr.String(), "\n"+c.says+"\n") {
			t.Errorf("%q: exit code %d, %s\nwant %d, %s", args, code, &stderr, c.code, c.says)
		}
		if _, err := os.Stat(out); c.command == "convert" && (err == nil) != (c.code == 0) {
			t.Errorf("%q: the trace: %v", args, err)
		}
	}
}
