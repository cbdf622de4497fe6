package join

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// How much work of its process may begin after a call before the call is taken to have
// none, by what is known of its function. A GPU takes in about a thousand launches a
// stream ahead of running them.
const (
	windowWork    = 1 << 17
	windowUnknown = 1 << 15
	windowOther   = 1 << 12
)

// window is how much other work a call waits for its own.
func window(c *call) uint64 {
	switch {
	case c.fn.MayWork && c.Ret == 0:
		return windowWork
	case !c.fn.Known && c.Ret == 0:
		return windowUnknown
	}
	return windowOther
}

// workProgress says how far the work of a program has been gone through.
type workProgress struct {
	done  uint64 // pieces of work
	marks []progressMark
}

// A progressMark says that all work that begins before low was among the first done
// pieces.
type progressMark struct{ low, done uint64 }

// mark notes that all work before low has been gone through.
func (p *workProgress) mark(low uint64) {
	if n := len(p.marks); n > 0 && p.marks[n-1].low >= low {
		return
	}
	i := 0
	for i < len(p.marks) && p.done-p.marks[i].done > windowWork {
		i++
	}
	if i > 1 { // the last of these still says when that was
		p.marks = p.marks[:copy(p.marks, p.marks[i-1:])]
	}
	p.marks = append(p.marks, progressMark{low, p.done})
}

// past says whether so much work has begun after the end of a call that its own is not
// to be expected any more.
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
	return p.marks[i].low == timeline.Never || p.done-p.marks[i].done >= window(c)
}
