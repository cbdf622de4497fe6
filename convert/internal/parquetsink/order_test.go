package parquetsink

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortedBy sorts what a library sorts, too: runs that lie apart, that overlap, that interleave, and no runs at all.
func TestSortedBy(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var got, spare []uint32
	for n := range 3000 {
		v := make([]int64, rnd.IntN(200))
		longest, back := 1+rnd.IntN(40), 1+rnd.Int64N(1<<rnd.IntN(12))
		at := int64(0)
		for i := range v {
			if at += rnd.Int64N(8); rnd.IntN(longest) == 0 {
				at -= rnd.Int64N(back)
			}
			v[i] = at
		}
		want := make([]uint32, len(v))
		for i := range want {
			want[i] = uint32(i)
		}
		slices.SortStableFunc(want, func(a, b uint32) int { return cmp.Compare(v[a], v[b]) })
		if got = sortedBy(v, got, &spare); !slices.Equal(got, want) {
			t.Fatalf("%d: %v of %v", n, got, v)
		}
	}
}
