package counters

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// However intervals arrive, a coverage has the times of any of them, in intervals that lie apart.
func TestCoverage(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(21, 22))
	for range 300 {
		var c coverage
		var covered [400]bool
		for range 1 + r.IntN(12) {
			var run []interval
			at := r.Uint64N(300)
			for range r.IntN(8) {
				start := at + r.Uint64N(10)
				run = append(run, interval{start, start + 1 + r.Uint64N(12)})
				at = start
			}
			if r.IntN(4) == 0 {
				r.Shuffle(len(run), func(i, k int) { run[i], run[k] = run[k], run[i] })
			}
			for _, i := range run {
				for at := i.start; at < i.end; at++ {
					covered[at] = true
				}
			}
			for _, i := range run {
				c.add(i)
			}
			if r.IntN(2) == 0 {
				c.settle()
			}
		}
		c.settle()
		var want []interval
		for at, is := range covered {
			switch n := len(want); {
			case !is:
			case n > 0 && want[n-1].end == uint64(at):
				want[n-1].end++
			default:
				want = append(want, interval{uint64(at), uint64(at) + 1})
			}
		}
		if !slices.Equal(c.list, want) {
			t.Fatalf("covered is %v, want %v", c.list, want)
		}
		n := r.IntN(len(want) + 1)
		if c.drop(n); !slices.Equal(c.list, want[n:]) {
			t.Fatalf("without the first %d, covered is %v, want %v", n, c.list, want[n:])
		}
	}
}
