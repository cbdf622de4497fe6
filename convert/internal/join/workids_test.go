package join

import (
	"math/rand/v2"
	"testing"
)

// TestWorkIDs holds that no two pieces of work have the same number, whatever correlation
// IDs a log claims, and that ordinary work has its correlation ID.
func TestWorkIDs(t *testing.T) {
	ids, seen := new(WorkIDs), make(map[uint64]bool)
	first, second := new(program), new(program)
	give := func(s *program, correlation uint32) uint64 {
		id := ids.next(s, correlation)
		if id == 0 || seen[id] {
			t.Fatalf("correlation ID %d: work %d is there already", correlation, id)
		}
		seen[id] = true
		return id
	}
	if id := give(second, 0); id <= countedIDs {
		t.Errorf("work without a correlation ID is %d", id)
	}
	for n := uint32(2); n < 100_000; n++ {
		if id := give(first, n^1); id != uint64(n^1) { // out of order
			t.Fatalf("work of call %d is %d", n^1, id)
		}
		if id := give(second, n); id <= countedIDs {
			t.Fatalf("work of another program is %d", id)
		}
	}
	give(first, 500) // of a graph
	r := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		n := r.Uint32()
		if r.IntN(10) > 0 {
			n = n % 4 << 30 >> r.IntN(31)
		}
		give(first, n+uint32(r.IntN(5000)))
	}
	give(first, 1<<32-1)
	give(first, 1<<32-1)
	give(first, 1)
}
