package counters

import (
	"cmp"
	"slices"
)

type interval struct{ start, end uint64 }

// A coverage is the time that intervals cover together: intervals that neither overlap nor touch, in order. On a busy GPU
// they are few, however much work they are made of.
type coverage struct {
	list  []interval
	spare []interval
}

// add covers the intervals of a run, in whatever order, too.
func (c *coverage) add(run []interval) {
	byStart := func(a, b interval) int { return cmp.Compare(a.start, b.start) }
	if len(run) == 0 {
		return
	}
	if !slices.IsSortedFunc(run, byStart) {
		slices.SortFunc(run, byStart)
	}
	at, _ := slices.BinarySearchFunc(c.list, run[0].start, func(i interval, start uint64) int { return cmp.Compare(i.end, start) })
	c.spare = append(c.spare[:0], c.list[at:]...)
	old, list := c.spare, c.list[:at]
	for len(old) > 0 || len(run) > 0 {
		var next interval
		if len(run) == 0 || len(old) > 0 && old[0].start < run[0].start {
			next, old = old[0], old[1:]
		} else {
			next, run = run[0], run[1:]
		}
		if last := len(list) - 1; last >= at && next.start <= list[last].end {
			list[last].end = max(list[last].end, next.end)
		} else {
			list = append(list, next)
		}
	}
	c.list = list
}

// drop removes the first n intervals.
func (c *coverage) drop(n int) { c.list = slices.Delete(c.list, 0, n) }
