package convert

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert/join"
	"github.com/cudatrace/cudatrace/convert/logtest"
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

// The time of CUDA is from the first call to the last end, of a call or of GPU work.
func TestCUDATime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"": 0,
		"call pid=1 tid=1 func=#1 enter=5000 dur=300 ret=0\n":                                                                      300,
		"call pid=1 tid=1 func=#1 enter=5000 dur=300 ret=0\nkernel pid=1 device=0 context=1 stream=7 start=6000 dur=4000 name=k\n": 5000,
		"call pid=1 tid=1 func=#1 enter=5000 dur=9000 ret=0\nkernel pid=1 device=0 context=1 stream=7 start=6000 dur=400 name=k\n": 9000,
		"kernel pid=1 device=0 context=1 stream=7 start=0 dur=0 name=k\ncall pid=1 tid=1 func=#1 enter=5000 dur=9 ret=0\n":         9,
	} {
		open := logtest.Assemble(t, "clock monotonic=1000 realtime=1 boottime=1\nfunction id=1 name=cuInit library=driver args=\"\"\n"+text+"end time=900000 complete=1\n")
		all, err := Timeline([]Log{{"test", open}}, Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s := all[0]; s.CUDANS != want || s.DurationNS != 899000 {
			t.Errorf("%d ns of CUDA in %d, want %d\n%s", s.CUDANS, s.DurationNS, want, text)
		}
	}
}
