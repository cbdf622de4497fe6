package counters

import (
	"cmp"
	"slices"
)

type interval struct{ start, end uint64 }

// A coverage is the time that intervals cover together.
type coverage struct {
	list  []interval // in order; they neither overlap nor touch. On a busy GPU they are few, however much work they are made of
	fresh []interval // not yet in the list
	spare []interval
}

// mostFresh bounds the intervals that are not in the list, and so how often the end of the list is made anew.
const mostFresh = 1 << 12

// add covers the intervals of a run, in whatever order.
func (c *coverage) add(run []interval) {
	c.fresh = append(c.fresh, run...)
	if len(c.fresh) >= mostFresh {
		c.settle()
	}
}

// settle brings all intervals into the list.
func (c *coverage) settle() {
	if len(c.fresh) == 0 {
		return
	}
	c.fresh, c.spare = sortRuns(c.fresh, c.spare)
	at, _ := slices.BinarySearchFunc(c.list, c.fresh[0].start, func(i interval, start uint64) int { return cmp.Compare(i.end, start) })
	c.spare = mergeRuns(c.spare[:0], c.list[at:], c.fresh)
	c.list = c.list[:at]
	for _, next := range c.spare {
		if last := len(c.list) - 1; last >= at && next.start <= c.list[last].end {
			c.list[last].end = max(c.list[last].end, next.end)
		} else {
			c.list = append(c.list, next)
		}
	}
	c.fresh = c.fresh[:0]
}

// drop removes the first n intervals of the list.
func (c *coverage) drop(n int) { c.list = slices.Delete(c.list, 0, n) }

// sortRuns sorts intervals by their start. The work of each stream is a sorted run, so that a few rounds of merging neighbours do. It returns
// the sorted list, and the other list for use again.
func sortRuns(list, spare []interval) (sorted, other []interval) {
	for {
		spare = spare[:0]
		runs := 0
		for i := 0; i < len(list); runs++ {
			k := endOfRun(list, i)
			end := endOfRun(list, k)
			spare = mergeRuns(spare, list[i:k], list[k:end])
			i = end
		}
		list, spare = spare, list
		if runs <= 1 {
			return list, spare
		}
	}
}

// endOfRun is the end of the sorted run that begins at an index.
func endOfRun(list []interval, i int) int {
	if i == len(list) {
		return i
	}
	for i++; i < len(list) && list[i-1].start <= list[i].start; i++ {
	}
	return i
}

// mergeRuns appends two sorted runs as one.
func mergeRuns(to, a, b []interval) []interval {
	for len(a) > 0 && len(b) > 0 {
		if a[0].start <= b[0].start {
			to, a = append(to, a[0]), a[1:]
		} else {
			to, b = append(to, b[0]), b[1:]
		}
	}
	return append(append(to, a...), b...)
}
