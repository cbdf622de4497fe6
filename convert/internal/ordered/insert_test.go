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
