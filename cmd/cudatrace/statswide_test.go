package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// A folder stands for its logs, and --wide and COLUMNS decide what has room.
func TestStatsWide(t *testing.T) {
	folder := filepath.Join(filepath.Dir(gpuLog), "conditional")
	output := func(words ...string) string {
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"cudatrace", "stats", folder, "--report", "kernels,devices"}, words...), &stdout, &stderr); code != 0 {
			t.Fatalf("%q: exit code %d: %s", words, code, &stderr)
		}
		return stdout.String()
	}
	if text := output(); strings.Contains(text, "occupancy") || !strings.Contains(text, "  384  ") {
		t.Errorf("without a width, of 384 kernels:\n%s", text)
	}
	if text := output("--wide"); !strings.Contains(text, "  occupancy\n") {
		t.Errorf("--wide:\n%s", text)
	}
	t.Setenv("COLUMNS", "60")
	for line := range strings.Lines(output()) {
		if len([]rune(line)) > 61 {
			t.Errorf("COLUMNS=60: %q", line)
		}
	}
}
