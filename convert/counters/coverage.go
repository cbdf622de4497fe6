package counters

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/ordered"
)

type interval struct{ start, end uint64 }

func before(a, b *interval) bool { return a.start < b.start }

// A coverage is the time that intervals cover together.
type coverage struct {
	list  []interval // in order; they neither overlap nor touch. On a busy GPU they are few, however much work they are made of
	fresh []interval // not yet in the list
}

// mostFresh bounds the intervals that are not in the list, and so how often the end of the list is made anew.
const mostFresh = 1 << 12

// add covers an interval.
func (c *coverage) add(i interval) {
	c.fresh = append(c.fresh, i)
	if len(c.fresh) >= mostFresh {
		c.settle()
	}
}

// settle brings all intervals into the list.
func (c *coverage) settle() {
	if len(c.fresh) == 0 {
		return
	}
	ordered.Insert(c.fresh, 0, before) // the work of each stream is in order
	at, _ := slices.BinarySearchFunc(c.list, c.fresh[0].start, func(i interval, start uint64) int { return cmp.Compare(i.end, start) })
	old := len(c.list)
	c.list = append(c.list, c.fresh...)
	ordered.Insert(c.list, old, before)
	changed := c.list[at:]
	c.list = c.list[:at]
	for _, next := range changed {
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
