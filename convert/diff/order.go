package diff

import (
	"fmt"
	"slices"
	"time"

	"github.com/cudatrace/cudatrace/record/figures"
)

// start returns when the recording of a run began, the zero time if that is not known.
func (r *Run) start() (first time.Time) {
	for i := range r.Logs {
		at, err := time.Parse(time.RFC3339Nano, r.Logs[i].Start)
		if err != nil {
			return time.Time{}
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// leastOrdered is the number of runs a side from which on their order tells something.
const leastOrdered = 2

// An order has the places in time of the runs of BASE and of NEW, where one side was recorded after the other.
type order struct{ places [2][]float64 }

// orderOf returns the order of runs, nil where sides were recorded by turns, a time is not known, or there are few
// runs.
func orderOf(base, now []*Run) *order {
	all := slices.Concat(base, now)
	if min(len(base), len(now)) < leastOrdered || slices.ContainsFunc(all, func(r *Run) bool {
		return r.start().IsZero()
	}) {
		return nil
	}
	sorted := slices.SortedStableFunc(slices.Values(all), byStart)
	o, turns := new(order), 0
	for i, r := range sorted {
		if i > 0 && slices.Contains(base, r) != slices.Contains(base, sorted[i-1]) {
			turns++
		}
	}
	if turns != 1 {
		return nil
	}
	for side, runs := range [2][]*Run{base, now} {
		for _, r := range runs {
			o.places[side] = append(o.places[side], float64(slices.Index(sorted, r)))
		}
	}
	return o
}

func byStart(a, b *Run) int { return a.start().Compare(b.start()) }

// otherTimes warns of runs that were not recorded by turns.
func otherTimes(base, new []*Run) []Problem {
	if orderOf(base, new) == nil {
		return nil
	}
	first, second, before, after := "BASE", "NEW", base, new
	if slices.MinFunc(new, byStart).start().Before(slices.MinFunc(base, byStart).start()) {
		first, second, before, after = "NEW", "BASE", new, base
	}
	gap := slices.MinFunc(after, byStart).start().Sub(slices.MaxFunc(before, byStart).start())
	return []Problem{{OtherTimes,
		fmt.Sprintf("all runs of %s were recorded before those of %s, which began %s later: a machine that drifts looks "+
			"like a difference; recorded by turns they would be safe from that",
			first, second, figures.Duration(uint64(gap)))}}
}
