package convert

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert/join"
)

// A summary tells at most maxErrors kinds of failed call apart, the frequent ones,
// and counts all.
func TestErrorBound(t *testing.T) {
	t.Parallel()
	failures := make(map[join.Failure]uint64)
	total := uint64(0)
	for i := range uint64(150) {
		failures[join.Failure{Function: "cudaMalloc", Library: "runtime", Ret: int32(10_000 + i)}] = i + 1
		total += i + 1
	}
	counts := errorCounts(failures)
	if len(counts) != maxErrors+1 || counts["cudaMalloc: cudaError_t 10149"] != 150 || counts[others] != 50*51/2 {
		t.Errorf("%d kinds, %d of the most frequent, %d others", len(counts), counts["cudaMalloc: cudaError_t 10149"], counts[others])
	}
	for _, n := range counts {
		total -= n
	}
	if total != 0 {
		t.Errorf("%d failures are missing", total)
	}
}
