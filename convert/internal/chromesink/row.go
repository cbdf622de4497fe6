package chromesink

import (
	"fmt"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

const (
	// laneStep lies between the thread numbers of a row's lanes. It exceeds every thread number of
	// Linux (2^22), so that a lane's number belongs to one row.
	laneStep = 10_000_000

	// maxLanes bounds the lanes of a row. What overlaps more often shares the last lane: the file
	// has all of it, but readers may drop it.
	maxLanes = 64

	// maxDepth bounds the slices around a slice that are searched for its correlation ID.
	maxDepth = 16
)

// numbers are the thread numbers that are taken under one process number.
type numbers map[uint32]bool

// reserve returns a free number: base, or base and a multiple of laneStep; the latter if base is
// for another row. Readers replace 0 by the process number, so 0 is never given out. With all
// numbers taken it returns base.
func (n numbers) reserve(base uint32, beside bool) uint32 {
	from := uint64(base)
	if beside {
		from += laneStep
	}
	for at := from; at <= math.MaxUint32; at += laneStep {
		if number := uint32(at); number != 0 && !n[number] {
			n[number] = true
			return number
		}
	}
	return base
}

// A row is a thread of the trace: calls of a thread, work of a stream, or spans of a track. What
// overlaps without nesting is on further lanes, threads with the same name and place.
type row struct {
	file   *file
	pid    uint32
	base   uint32
	name   string
	nests  bool // slices may lie within each other; else each overlap takes a lane
	beside bool // base is the number of another row
	lanes  []*lane
	borne  uint32 // the latest correlation ID that a call bears
	begun  uint32 // the latest correlation ID with the beginning of an arrow

	operator uint64 // Number of the operator that began last
	launched uint32 // the correlation ID of the first call with work since then, 0 before it
}

// externalID is the number of an operator that has ended, which its launch and the work bear, too: the correlation ID
// of the launch. One that launched nothing itself has a number beyond all correlation IDs.
func (r *row) externalID(sp *timeline.Span) uint64 {
	if sp.Number == r.operator && r.launched != 0 {
		return uint64(r.launched)
	}
	return 1<<32 | sp.Number
}

// isOperator reports whether an operator launched something itself: not a range of the program's within it.
func isOperator(o *timeline.Operator) bool { return o != nil && o.Scope != timeline.RangeScope }

// A lane is one thread number. Its slices come in the order of their starts.
type lane struct {
	tid  uint32
	last uint64 // start of the latest slice
	open []open // outermost first
}

// An open is a slice that may contain the next one.
type open struct {
	end         uint64
	correlation uint32
	begun       bool // with the beginning of an arrow
}

// place returns the first lane on which a slice overlaps nothing.
func (r *row) place(start, end uint64, correlation uint32) *lane {
	for _, l := range r.lanes {
		if l.fits(start, end, r.nests) {
			l.openSlice(start, end, correlation)
			return l
		}
	}
	l := r.newLane()
	l.openSlice(start, end, correlation)
	return l
}

func (r *row) newLane() *lane {
	if n := len(r.lanes); n == maxLanes {
		r.lanes[n-1].open = r.lanes[n-1].open[:0]
		return r.lanes[n-1]
	}
	l := &lane{tid: r.file.numbers(r.pid).reserve(r.base, r.beside)}
	r.lanes = append(r.lanes, l)
	name := r.name
	if n := len(r.lanes); n > 1 {
		name += fmt.Sprintf(" (overlap %d)", n-1)
	}
	r.file.thread(r.pid, l.tid, name, r.base)
	return l
}

// first returns the row's first lane, for events without length.
func (r *row) first() *lane {
	if len(r.lanes) == 0 {
		r.newLane()
	}
	return r.lanes[0]
}

// fits reports whether a slice lies beside the slices of the lane, or within the innermost one. It
// forgets the slices that end by the slice's start.
func (l *lane) fits(start, end uint64, nests bool) bool {
	if start < l.last {
		return false
	}
	for n := len(l.open); n > 0 && l.open[n-1].end <= start; n-- {
		l.open = l.open[:n-1]
	}
	n := len(l.open)
	return n == 0 || nests && end <= l.open[n-1].end
}

func (l *lane) openSlice(start, end uint64, correlation uint32) {
	l.last = start
	l.open = append(l.open, open{end: end, correlation: correlation})
}

// around returns the slices around the latest one.
func (l *lane) around() []open {
	around := l.open[:len(l.open)-1]
	return around[max(0, len(around)-maxDepth):]
}

// repeats reports whether a slice around the latest one has the same correlation ID.
func (l *lane) repeats(correlation uint32) bool {
	return slices.ContainsFunc(l.around(), func(o open) bool { return o.correlation == correlation })
}

// begunAround reports whether an arrow with the same correlation ID begins at a slice around the latest one.
func (l *lane) begunAround(correlation uint32) bool {
	return slices.ContainsFunc(l.around(), func(o open) bool { return o.begun && o.correlation == correlation })
}
