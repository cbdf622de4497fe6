package ordered

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// Lists come out as a stable sort leaves them, however they were out of order.
func TestInsertSorted(t *testing.T) {
	t.Parallel()
	type pair struct{ key, at int }
	compare := func(a, b pair) int { return cmp.Compare(a.key, b.key) }
	before := func(a, b *pair) bool { return a.key < b.key }
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, next := range map[string]func(i int) int{
		"sorted":     func(i int) int { return i },
		"reversed":   func(i int) int { return -i },
		"random":     func(int) int { return rnd.IntN(100) },
		"nearly":     func(i int) int { return i + rnd.IntN(5) },
		"two runs":   func(i int) int { return (i*2 + i/300*i) % 601 },
		"interlaced": func(i int) int { return i%7*100 + i/7 },
		"equal":      func(int) int { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			for _, from := range []int{0, 1, 200} {
				var list []pair
				for i := range 600 {
					list = append(list, pair{next(i), i})
				}
				slices.SortStableFunc(list[:from], compare)
				want := slices.Clone(list)
				slices.SortStableFunc(want, compare)
				if Insert(list, from, before); !slices.Equal(list, want) {
					t.Errorf("from %d: got %v, want %v", from, list, want)
				}
			}
		})
	}
}

// What is out of order everywhere is sorted as a whole: values are not moved one by one.
func TestInsertComparisons(t *testing.T) {
	t.Parallel()
	const n = 5000
	for name, c := range map[string]struct {
		next func(i int) int
		most int // comparisons a value
	}{
		"sorted":           {func(i int) int { return i }, 2},
		"two runs":         {func(i int) int { return i % (n / 2) }, 4},
		"reversed":         {func(i int) int { return -i }, 50},
		"pairs of reverse": {func(i int) int { return -i / 2 }, 50},
	} {
		t.Run(name, func(t *testing.T) {
			var list []int
			for i := range n {
				list = append(list, c.next(i))
			}
			comparisons := 0
			Insert(list, 0, func(a, b *int) bool { comparisons++; return *a < *b })
			if comparisons > c.most*n {
				t.Errorf("%d comparisons for %d values, want at most %d a value", comparisons, n, c.most)
			}
		})
	}
}
