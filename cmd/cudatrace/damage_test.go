package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
)

// gpuLog is a log recorded on a real GPU.
var gpuLog = filepath.Join("..", "..", "testdata", "gpu", "logs", "streams.cudatrace")

// damaged writes a log to a file and runs every command on it that reads logs.
func damaged(t *testing.T, log []byte, check func(t *testing.T, command, stdout, stderr, trace string, code int)) {
	t.Helper()
	dir := t.TempDir()
	path, trace := filepath.Join(dir, "x.cudatrace"), filepath.Join(dir, "x.pftrace")
	if err := os.WriteFile(path, log, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"convert", path, "-o", trace}, {"info", path, "--format", "json"}, {"info", path}, {"dump", path}} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"cudatrace"}, args...), &stdout, &stderr)
		for line := range strings.Lines(stderr.String()) {
			if !strings.HasPrefix(line, "cudatrace: ") || len(line) > 4000 {
				t.Errorf("%s: not a clear line: %q", args[0], line)
			}
		}
		if stderr.Len() == 0 {
			t.Errorf("%s says nothing", args[0])
		}
		if code != exitFailure {
			t.Errorf("%s: exit code %d, want %d\n%s", args[0], code, exitFailure, &stderr)
		}
		check(t, args[0], stdout.String(), stderr.String(), trace, code)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*partial*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestCutLog cuts a log at 30 places: each command takes what precedes the cut
// and says that the rest is missing.
func TestCutLog(t *testing.T) {
	t.Parallel()
	log, err := os.ReadFile(gpuLog)
	if err != nil {
		t.Fatal(err)
	}
	var most uint64
	for i := range 30 {
		cut := len(log) * i / 30
		damaged(t, log[:cut], func(t *testing.T, command, stdout, stderr, trace string, _ int) {
			if cut < 64 { // the header itself is cut
				return
			}
			switch command {
			case "convert":
				if info, err := os.Stat(trace); err != nil || info.Size() == 0 {
					t.Errorf("cut at %d: no trace: %v", cut, err)
				}
				if !strings.Contains(stderr, "is not complete") {
					t.Errorf("cut at %d: convert does not say so: %s", cut, stderr)
				}
			case "info":
				var s convert.Summary
				if json.Unmarshal([]byte(stdout), &s) != nil {
					return // the text form
				}
				if s.Complete || !s.Damaged || len(s.Reasons) == 0 {
					t.Errorf("cut at %d: complete %t, damaged %t, %q", cut, s.Complete, s.Damaged, s.Reasons)
				}
				most = max(most, s.Kernels)
			}
		})
	}
	if most != 180 {
		t.Errorf("the longest cut log has %d kernels, want all 180", most)
	}
}

// TestNewerLog changes the version in the log's header.
func TestNewerLog(t *testing.T) {
	t.Parallel()
	log, err := os.ReadFile(gpuLog)
	if err != nil {
		t.Fatal(err)
	}
	log[8] = 0xFF // FORMAT.md: the major version
	damaged(t, log, func(t *testing.T, command, stdout, stderr, trace string, _ int) {
		if !strings.Contains(stderr, "was written by a newer cudatrace") {
			t.Errorf("%s: %s", command, stderr)
		}
		if _, err := os.Stat(trace); err == nil || stdout != "" {
			t.Errorf("%s made something of it", command)
		}
	})
}
