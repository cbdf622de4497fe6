package ordered

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A timed is a value with the time that orders it; name tells equal times apart.
type timed struct {
	at   int
	name string
}

func (v *timed) before(o *timed) bool { return v.at < o.at }

func listOf(values ...timed) List[timed] {
	l := NewList((*timed).before)
	for _, v := range values {
		l.Add(v)
	}
	return l
}

// drain takes the values before a time and returns their names.
func drain(l *List[timed], before int) (names []string) {
	l.Drain(func(v *timed) bool { return v.at < before }, func(v *timed) { names = append(names, v.name) })
	return names
}

func names(values []timed) (names []string) {
	for _, v := range values {
		names = append(names, v.name)
	}
	return names
}

// Whatever is added and taken, a list does what a sorted slice does.
func TestListAgainstSlice(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	l, model := listOf(), []timed(nil)
	for step := range 5000 {
		switch now := step / 4; rnd.IntN(8) {
		case 0:
			n := 0
			for n < len(model) && model[n].at < now {
				n++
			}
			if got, want := drain(&l, now), names(model[:n]); !slices.Equal(got, want) {
				t.Fatalf("step %d: took %q, want %q", step, got, want)
			}
			model = slices.Delete(model, 0, n)
		case 1:
			l.Trim()
		case 2:
			if diff := cmp.Diff(model, slices.Clone(l.Values()), cmp.AllowUnexported(timed{})); diff != "" && len(model) > 0 {
				t.Fatalf("step %d (-want +got):\n%s", step, diff)
			}
		default:
			v := timed{now + rnd.IntN(40) - 10, string(rune('a' + step%26))}
			l.Add(v)
			model = append(model, v)
			slices.SortStableFunc(model, func(a, b timed) int { return a.at - b.at })
		}
		if l.Len() != len(model) {
			t.Fatalf("step %d: %d values, want %d", step, l.Len(), len(model))
		}
	}
}

// A list lets go what it gave away, so that the garbage collector can take it.
func TestListForgetsTaken(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]int{"most left": 9, "few left": 1, "none left": 0} {
		t.Run(name, func(t *testing.T) {
			l := NewList(func(a, b **timed) bool { return (*a).at < (*b).at })
			for i := range 10 {
				l.Add(&timed{at: i})
			}
			l.Values()
			l.Drop(10 - left)
			kept := 0
			for _, v := range l.values[:cap(l.values)] {
				if v != nil {
					kept++
				}
			}
			if kept != left {
				t.Errorf("the list still points to %d values, want %d", kept, left)
			}
		})
	}
}

func TestListTrim(t *testing.T) {
	t.Parallel()
	const burst = 1 << 16
	fill := func(left int) List[timed] {
		l := listOf()
		for i := range burst {
			l.Add(timed{at: i})
		}
		l.Values()
		l.Drop(burst - left)
		return l
	}
	t.Run("after a burst", func(t *testing.T) {
		l := fill(5)
		l.Add(timed{at: 0, name: "late"})
		l.Trim()
		if cap(l.values) > burst/8 {
			t.Errorf("6 values have room for %d", cap(l.values))
		}
		if values := l.Values(); len(values) != 6 || values[0].name != "late" || values[1].at != burst-5 || values[5].at != burst-1 {
			t.Errorf("the values are %v", values)
		}
	})
	t.Run("a list in use", func(t *testing.T) {
		l := fill(burst / 4)
		before := cap(l.values)
		l.Trim()
		if cap(l.values) != before {
			t.Errorf("a list of %d values had room for %d, now for %d", l.Len(), before, cap(l.values))
		}
	})
}

// What is in order stays so: later values are compared with few of those before them.
func TestListComparisons(t *testing.T) {
	t.Parallel()
	comparisons := 0
	l := NewList(func(a, b *int) bool { comparisons++; return *a < *b })
	const n = 10_000
	for i := range n {
		l.Add(i)
	}
	l.Values()
	l.Drop(n * 3 / 4) // the rest moves to the front
	comparisons = 0
	for i := range 100 {
		l.Add(n + i)
		l.Values()
	}
	if comparisons > 1000 {
		t.Errorf("%d comparisons for 100 values behind a list in order", comparisons)
	}
}
