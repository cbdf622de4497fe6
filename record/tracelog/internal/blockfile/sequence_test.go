package blockfile

import (
	"math/rand/v2"
	"testing"
)

// In whatever order numbers come, each is taken once while there are few gaps; and there
// are never more than are remembered.
func TestSequence(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s sequence
		n := 1 + rnd.IntN(2*maxGaps)
		taken := make([]int, n)
		for _, seq := range append(rnd.Perm(n), rnd.Perm(n)...) {
			switch {
			case uint32(seq) >= s.next:
				s.advance(uint32(seq))
				taken[seq]++
			case s.fill(uint32(seq)):
				taken[seq]++
			}
		}
		for seq, times := range taken {
			if times != 1 {
				t.Fatalf("number %d of %d was taken %d times", seq, n, times)
			}
		}
	}
	var s sequence
	for seq := uint32(0); seq < 1e6; seq += 2 {
		s.advance(seq)
	}
	for seq := uint32(1); seq < 1e6; seq += 2 {
		s.fill(seq)
		s.advance(s.next + 100)
		s.fill(s.next - 50)
	}
	if len(s.missing) > maxGaps {
		t.Errorf("%d gaps are remembered", len(s.missing))
	}
}
