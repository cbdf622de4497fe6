package selection

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Durations of a group are at least its start and less than that of the next one.
func TestGroups(t *testing.T) {
	t.Parallel()
	last := group(math.MaxUint64)
	check := func(d uint64) {
		t.Helper()
		i := group(d)
		if i < 0 || i > last || groupStart(i) > d || i < last && groupStart(i+1) <= d || d-groupStart(i) > d/8192 {
			t.Errorf("%d is in group %d, which begins with %d", d, i, groupStart(i))
		}
	}
	for d := range uint64(70_000) {
		check(d)
	}
	for shift := range 64 {
		for _, d := range []uint64{1 << shift, 1<<shift - 1, 1<<shift + 1, 3 << shift >> 1, 7 << shift >> 2} {
			check(d)
		}
	}
	check(math.MaxUint64)
}

// A border selects exactly as many slices as it is made for, whatever their order, and none that is shorter than one left out, within a group.
func TestLongest(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var l Lengths
		var list []uint64
		for range 1 + rnd.IntN(500) {
			d := rnd.Uint64() >> rnd.IntN(64)
			if rnd.IntN(2) == 0 {
				d = rnd.Uint64N(20)
			}
			list = append(list, d)
			l.Add(d)
		}
		for _, n := range []int{0, 1, len(list) / 3, len(list) - 1, len(list)} {
			b := l.Longest(uint64(n))
			var kept, left []uint64
			for _, d := range list {
				if b.To == 0 || b.takes(d) {
					kept = append(kept, d)
				} else {
					left = append(left, d)
				}
			}
			if len(kept) != n {
				t.Fatalf("seed %d: %d of %d are kept, want %d", seed, len(kept), len(list), n)
			}
			if len(left) > 0 && n > 0 && group(slices.Max(left)) > group(slices.Min(kept)) {
				t.Errorf("seed %d: %d is left out, %d is kept", seed, slices.Max(left), slices.Min(kept))
			}
		}
	}
}
