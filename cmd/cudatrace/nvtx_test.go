package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

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
