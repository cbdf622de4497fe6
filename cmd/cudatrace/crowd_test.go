package main

import (
	"os"
	"strconv"
	"testing"
)

// TestCrowd has many processes use CUDA at the same time: each waits until it is probed, none is turned away.
// CUDATRACE_CROWD is their number; without it the test is skipped, because a process waits 10 s at most, which an idle machine
// needs for hundreds and a busy one for a few dozen.
func TestCrowd(t *testing.T) {
	t.Parallel()
	n, err := strconv.Atoi(os.Getenv("CUDATRACE_CROWD"))
	if err != nil {
		t.Skip("make test-long runs it")
	}
	r := recordProgram(t, "--no-convert", "--calls", "uprobe", sim("byturns"), "-w", strconv.Itoa(n))
	if c := r.Callers; !r.Complete || r.ProcessCount != n || c == nil || c.Unknown != 0 {
		t.Errorf("complete %t, %d processes, callers %+v\n%s", r.Complete, r.ProcessCount, c, r.stderr)
	}
}
