package activity

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/ordered"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Piece is a piece of work on a GPU.
type Piece struct {
	Start, End uint64
	Class      Class
	Launch     // only where idle time is watched
}

// A Launch is what launched a piece, and the rest of what is known of the piece.
type Launch struct {
	Thread             *History // of the call; nil for an unknown call
	CallStart, CallEnd uint64
	Shape              *timeline.Shape
	Python             *timeline.Python   // of the call; nil if it has no frames
	Operator           *timeline.Operator // likewise
	Kind               timeline.WorkKind
	InGraph            bool
}

// A span is a piece that waits. Most devices need no more than this of a piece, which has no pointers and little
// memory.
type span struct {
	start, end uint64
	launch     uint32 // index in the launches of the lane
	class      Class
}

// A Lane is a stream of a device. Its work comes mostly by start.
type Lane struct {
	Stream      *timeline.Stream // nil for any
	Part        *Part
	Busy        Cover
	Late        uint64 // pieces that came too late for Busy to be exact
	First, Last uint64 // start of the first piece, end of the last

	id      uint32   // of Stream
	horizon uint64   // start of the last piece that Busy has
	stages  []uint64 // what Busy had at the marks of stages that were reached, by time
	pending []span   // that wait for earlier ones of other lanes
	sorted  int      // pieces of pending that are in order
	next    int      // first piece of pending that was not taken

	launches []Launch // of the pieces, where idle time is watched
}

// An order puts the pieces of several lanes in the order of time.
type order struct {
	lanes   []*Lane // with pending pieces, or once with such
	heap    []*Lane
	pending int
	settled uint64 // all pieces that start earlier were taken
	window  int    // pieces that wait, at most
}

// push adds a piece. It reports whether the window is full.
func (o *order) push(l *Lane, p span) (full bool) {
	n := len(l.pending)
	switch {
	case n == 0:
		o.lanes = append(o.lanes, l)
		l.sorted = 1
	case l.sorted == n && p.start >= l.pending[n-1].start:
		l.sorted++
	}
	l.pending = append(l.pending, p)
	o.pending++
	return o.pending >= o.window
}

// popUntil passes pieces to next, in the order of time: at most n, which start before a time. Of pieces that start at
// one time, those of the lane with the lowest stream number come first. It returns how many it passed.
func (o *order) popUntil(n int, before uint64, next func(*Lane, *span)) (taken int) {
	o.heap = o.heap[:0]
	for _, l := range o.lanes {
		if l.sorted < len(l.pending) {
			ordered.Insert(l.pending, l.sorted, func(a, b *span) bool { return a.start < b.start })
			l.sorted = len(l.pending)
		}
		o.heap = append(o.heap, l)
	}
	for i := len(o.heap)/2 - 1; i >= 0; i-- {
		o.sink(i)
	}
	for taken < n && len(o.heap) > 0 {
		l := o.heap[0]
		p := &l.pending[l.next]
		if p.start >= before {
			break
		}
		o.settled = p.start
		next(l, p)
		taken++
		if l.next++; l.next == len(l.pending) {
			last := len(o.heap) - 1
			o.heap[0], o.heap = o.heap[last], o.heap[:last]
		}
		o.sink(0)
	}
	if taken > 0 {
		o.compact()
	}
	return taken
}

// sink moves the lane at an index of the heap down to its place.
func (o *order) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(o.heap); child++ {
			if o.heap[child].before(o.heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		o.heap[i], o.heap[least] = o.heap[least], o.heap[i]
		i = least
	}
}

func (l *Lane) before(o *Lane) bool {
	a, b := l.pending[l.next].start, o.pending[o.next].start
	return a < b || a == b && l.id < o.id
}

// compact removes the pieces that were taken. The memory of the lanes together has room for
// twice the window at most.
func (o *order) compact() {
	room := 0
	for _, l := range o.lanes {
		room += cap(l.pending)
	}
	o.pending = 0
	for _, l := range o.lanes {
		l.pending = l.pending[:copy(l.pending, l.pending[l.next:])]
		l.next, l.sorted = 0, len(l.pending)
		l.keepLaunches()
		o.pending += len(l.pending)
	}
	if room > 2*o.window {
		o.clip()
	}
	o.lanes = slices.DeleteFunc(o.lanes, func(l *Lane) bool {
		if len(l.pending) > 0 {
			return false
		}
		l.pending, l.launches = nil, nil
		return true
	})
}

// keepLaunches drops the launches of pieces that were taken, and puts the others in the order of the pieces.
func (l *Lane) keepLaunches() {
	if l.launches == nil {
		return
	}
	kept := l.launches
	for i := range l.pending {
		if int(l.pending[i].launch) < i { // a launch would be overwritten
			kept = make([]Launch, len(l.pending))
			break
		}
	}
	for i := range l.pending {
		kept[i] = l.launches[l.pending[i].launch]
		l.pending[i].launch = uint32(i)
	}
	clear(kept[len(l.pending):])
	l.launches = kept[:len(l.pending)]
}

// clip gives back the room of the lanes that has no piece.
func (o *order) clip() {
	for _, l := range o.lanes {
		l.pending = slices.Clip(slices.Clone(l.pending))
		l.launches = slices.Clip(slices.Clone(l.launches))
	}
}
