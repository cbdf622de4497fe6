package activity

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Piece is a piece of work on a GPU.
type Piece struct {
	Start, End uint64
	// The call that launched it; Thread is nil for an unknown call.
	Thread             *History
	CallStart, CallEnd uint64
	Shape              *timeline.Shape
	Kind               timeline.WorkKind
	Class              Class
	InGraph            bool
}

// A Lane is a stream of a device. Its work comes mostly by start.
type Lane struct {
	Stream      *timeline.Stream
	Part        *Part
	Busy        Cover
	Late        uint64 // pieces that came too late for Busy to be exact
	First, Last uint64 // start of the first piece, end of the last

	horizon  uint64  // start of the last piece that Busy has
	pending  []Piece // that wait for earlier ones of other lanes
	unsorted bool
	next     int // first piece of pending that was not taken
}

// window is the number of pieces of a device that wait for earlier ones, at most.
const window = 1 << 17

// mostWaiting is the number of pieces that wait in a store, at most.
const mostWaiting = 8 * window

// A Store bounds the pieces that wait in all of its devices together: when a log has been read, nothing tells that no
// more work of its devices comes.
type Store struct {
	devices []*Device
	waiting int
	count   uint64 // pieces so far
	most    int    // pieces that wait; 0 for the constant mostWaiting
}

// added counts a piece of a device. If the store is full, a device to which none was added for a long time has to take most
// of its pieces.
func (s *Store) added(d *Device) {
	s.count++
	s.waiting++
	d.used = s.count
	if s.waiting < cmp.Or(s.most, mostWaiting) {
		return
	}
	var idle *Device
	for _, o := range s.devices {
		if o.order.pending*len(s.devices) >= s.waiting/2 && (idle == nil || o.used < idle.used) {
			idle = o
		}
	}
	idle.advance((idle.order.pending*3 + 3) / 4)
	idle.order.clip()
}

// An order puts the pieces of several lanes in the order of time.
type order struct {
	lanes   []*Lane // with pending pieces, or once with such
	heap    []*Lane
	pending int
	horizon uint64 // all pieces that start earlier were taken
	most    int    // pieces that wait; 0 for the constant window
}

func (o *order) window() int { return cmp.Or(o.most, window) }

// add adds a piece. It says whether the window is full.
func (o *order) add(l *Lane, p Piece) (full bool) {
	if len(l.pending) == 0 {
		o.lanes = append(o.lanes, l)
	} else if p.Start < l.pending[len(l.pending)-1].Start {
		l.unsorted = true
	}
	l.pending = append(l.pending, p)
	o.pending++
	return o.pending >= o.window()
}

// advance passes the first n pieces to take, in the order of time. Of pieces that start at one
// time, those of the lane with the lowest stream number come first.
func (o *order) advance(n int, take func(*Lane, *Piece)) {
	o.heap = o.heap[:0]
	for _, l := range o.lanes {
		if l.unsorted {
			slices.SortStableFunc(l.pending, func(a, b Piece) int { return cmp.Compare(a.Start, b.Start) })
			l.unsorted = false
		}
		o.heap = append(o.heap, l)
	}
	for i := len(o.heap)/2 - 1; i >= 0; i-- {
		o.sink(i)
	}
	for ; n > 0 && len(o.heap) > 0; n-- {
		l := o.heap[0]
		p := &l.pending[l.next]
		o.horizon = p.Start
		take(l, p)
		if l.next++; l.next == len(l.pending) {
			last := len(o.heap) - 1
			o.heap[0], o.heap = o.heap[last], o.heap[:last]
		}
		o.sink(0)
	}
	o.compact()
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
	a, b := l.pending[l.next].Start, o.pending[o.next].Start
	return a < b || a == b && l.Stream.ID < o.Stream.ID
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
		l.next = 0
		o.pending += len(l.pending)
	}
	if room > 2*o.window() {
		o.clip()
	}
	o.lanes = slices.DeleteFunc(o.lanes, func(l *Lane) bool {
		if len(l.pending) > 0 {
			return false
		}
		l.pending = nil
		return true
	})
}

// clip gives back the room of the lanes that has no piece.
func (o *order) clip() {
	for _, l := range o.lanes {
		l.pending = slices.Clip(slices.Clone(l.pending))
	}
}
