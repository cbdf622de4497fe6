package tracelog

import (
	"math/rand/v2"
	"testing"
)

// In whatever order numbers come, each is taken once while there are few gaps; and there
// are never more than are remembered.
func TestOrder(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var o order
		n := 1 + rnd.IntN(2*maxGaps)
		taken := make([]int, n)
		for _, seq := range append(rnd.Perm(n), rnd.Perm(n)...) {
			switch {
			case uint32(seq) >= o.next:
				o.advance(uint32(seq))
				taken[seq]++
			case o.fill(uint32(seq)):
				taken[seq]++
			}
		}
		for seq, times := range taken {
			if times != 1 {
				t.Fatalf("number %d of %d was taken %d times", seq, n, times)
			}
		}
	}
	var o order
	for seq := uint32(0); seq < 1e6; seq += 2 {
		o.advance(seq)
	}
	for seq := uint32(1); seq < 1e6; seq += 2 {
		o.fill(seq)
		o.advance(o.next + 100)
		o.fill(o.next - 50)
	}
	if len(o.missing) > maxGaps {
		t.Errorf("%d gaps are remembered", len(o.missing))
	}
}

// Blocks in a random order are all read.
func TestShuffledBlocks(t *testing.T) {
	t.Parallel()
	log := smallLog(t)
	blocks := blocksOf(t, log)
	first, end := blocks[0], blocks[len(blocks)-2] // the index and the footer stay
	want := survivors(openBytes(t, log))
	for seed := range uint64(50) {
		shuffled := append([]byte(nil), log[:first.to]...)
		for _, i := range rand.New(rand.NewPCG(3, seed)).Perm(len(blocks) - 3) {
			shuffled = append(shuffled, log[blocks[i+1].from:blocks[i+1].to]...)
		}
		r := openBytes(t, append(shuffled, log[end.from:]...))
		if n := survivors(r); n != want || r.Err() == nil {
			t.Errorf("%d records of %d, error %v", n, want, r.Err())
		}
		if n := survivors(openBytes(t, repairedBytes(t, append(shuffled, log[end.from:]...)))); n != want+1 {
			t.Errorf("%d records after the repair", n)
		}
	}
}

func repairedBytes(t *testing.T, log []byte) []byte {
	t.Helper()
	fixed, _ := repairOf(t, log)
	return fixed
}
