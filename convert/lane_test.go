package convert

import (
	"fmt"
	"testing"
)

// Spans that all overlap are on tracks of their own, up to the bound; the others
// are cut where the one around them ends, and say how long they were.
func TestSpreadBound(t *testing.T) {
	t.Parallel()
	c := &converter{sink: newCollector(t)}
	s := newSpread(&Process{}, "spans", "test")
	sink := c.sink.(*collector)
	sink.Process(s.track.Process)
	const n = maxLanes + 10
	for i := range uint64(n) {
		s.add(&Span{Name: fmt.Sprint(i), Start: 100 + i, End: 10_000 + i})
	}
	c.eof = true
	s.advance(c, never)
	tracks := sink.timeline().Processes[0].Tracks
	if len(tracks) != maxLanes {
		t.Fatalf("%d tracks, want %d", len(tracks), maxLanes)
	}
	last := tracks[maxLanes-1].Spans
	if len(last) != 1+n-maxLanes {
		t.Fatalf("%d spans on the last track, want %d", len(last), 1+n-maxLanes)
	}
	for i, sp := range last[1:] {
		if sp.End != last[0].End || sp.Depth != i+1 || len(sp.Args) != 1 || sp.Args[0] != (Detail{Name: "true_duration_ns", Value: 9900}) {
			t.Errorf("cut span %+v", sp)
		}
	}
}

// A summary tells at most maxErrors kinds of failed call apart, the frequent ones,
// and counts all.
func TestErrorBound(t *testing.T) {
	t.Parallel()
	failures := make(map[failure]uint64)
	total := uint64(0)
	for i := range uint64(150) {
		failures[failure{"cudaMalloc", categoryRuntime, int32(10_000 + i)}] = i + 1
		total += i + 1
	}
	counts := errorCounts(failures)
	if len(counts) != maxErrors+1 || counts["cudaMalloc: cudaError_t 10149"] != 150 || counts[otherErrors] != 50*51/2 {
		t.Errorf("%d kinds, %d of the most frequent, %d others", len(counts), counts["cudaMalloc: cudaError_t 10149"], counts[otherErrors])
	}
	for _, n := range counts {
		total -= n
	}
	if total != 0 {
		t.Errorf("%d failures are missing", total)
	}
}
