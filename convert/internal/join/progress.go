package join

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// How much other work of its program may begin after a call before the call is taken to have no
// work, by the kind of its function. A GPU accepts about a thousand launches per stream before
// it runs them.
const (
	windowWork    = 1 << 17
	windowUnknown = 1 << 15
	windowOther   = 1 << 12
)

// window is the amount of other work for which a call waits for its own work.
func window(c *call) uint64 {
	switch {
	case c.fn.MayWork && c.Ret == 0:
		return windowWork
	case !c.fn.Known && c.Ret == 0:
		return windowUnknown
	}
	return windowOther
}

// workProgress says how far the work of a program has been read.
type workProgress struct {
	done     uint64 // pieces of work
	marks    []progressMark
	patience uint64 // Options.Patience
}

// A progressMark says that the first done pieces include all work that begins before low.
type progressMark struct{ low, done uint64 }

// mark notes that all work before low has been read.
func (p *workProgress) mark(low uint64) {
	if n := len(p.marks); n > 0 && p.marks[n-1].low >= low {
		return
	}
	if n := len(p.marks); n > 0 && p.marks[n-1].done == p.done {
		p.marks[n-1].low = low
		return
	}
	i := 0
	for i < len(p.marks) && p.done-p.marks[i].done > windowWork {
		i++
	}
	if i > 1 { // the last of these marks is still needed
		p.marks = p.marks[:copy(p.marks, p.marks[i-1:])]
	}
	p.marks = append(p.marks, progressMark{low, p.done})
}

// past reports whether so much work has begun after the end of a call that the call's own work
// will not come.
func (p *workProgress) past(c *call) bool {
	i, _ := slices.BinarySearchFunc(p.marks, c.End, func(m progressMark, at uint64) int {
		if m.low <= at {
			return -1
		}
		return 1
	})
	if i == len(p.marks) {
		return false
	}
	if last := p.marks[len(p.marks)-1].low; p.patience > 0 && last >= timeline.End(c.End, p.patience) {
		return true
	}
	return p.marks[i].low == timeline.Never || p.done-p.marks[i].done >= window(c)
}
