package main

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert"
)

// TestSummaryWords: the time is that of CUDA, beside all; failed calls are named; one thing is not
// many.
func TestSummaryWords(t *testing.T) {
	t.Parallel()
	s := convert.Summary{
		Kernels: 1, Copies: 1, Memsets: 1, StreamCount: 1, Calls: 1234, ThreadCount: 1, Failed: 7,
		CUDANS: 36_400_000, DurationNS: 709_900_000, Complete: true,
		Errors: map[string]uint64{"a: x": 1, "b: x": 2, "c: x": 1000, "d: x": 1, "e: x": 1, "f: x": 1, "g: x": 1},
	}
	if got, want := headline(s), "1 kernel, 1 copy, 1 memset on 1 stream, 1,234 calls on 1 thread in 36.4 ms of CUDA, 709.9 ms in all"; got != want {
		t.Errorf("headline %q, want %q", got, want)
	}
	if got, want := outcome(s), "nothing lost, 7 calls failed"; got != want {
		t.Errorf("outcome %q, want %q", got, want)
	}
	if got, want := failures(s), "c: x (1,000 calls), b: x (2 calls), a: x (1 call), d: x (1 call), e: x (1 call), and 2 other errors"; got != want {
		t.Errorf("failures %q, want %q", got, want)
	}
	s.Errors = map[string]uint64{"cudaMalloc: cudaErrorMemoryAllocation": 1}
	if got, want := failures(s), "cudaMalloc: cudaErrorMemoryAllocation (1 call)"; got != want {
		t.Errorf("failures %q, want %q", got, want)
	}
}
