package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A folder stands for its logs, and --wide and COLUMNS decide what has room.
func TestStatsWide(t *testing.T) {
	folder := filepath.Join(filepath.Dir(gpuLog), "conditional")
	output := func(words ...string) string {
		stdout, _ := succeed(t, append([]string{"stats", folder, "--report", "kernels,devices"}, words...)...)
		return stdout
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
