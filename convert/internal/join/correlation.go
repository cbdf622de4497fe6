package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A call is a slice that is not finished.
type call struct {
	timeline.Slice
	thread *thread
	state  state
	stream read.StreamHandle // named by the call, or by the driver call inside it; 0 for none
	fn     *read.Function
	wait   *wait // nil for a call that does not wait, or that lies within a waiting call
	next   *call // the next call of its correlationSlot

	allocates *timeline.Call // where to describe it, for the memory that it allocates; nil for none
}

// asCause returns the part of a call that its work carries.
func (c *call) asCause() timeline.Call {
	return timeline.Call{Function: c.Function, Thread: c.thread.Thread, Start: c.Start, End: c.End,
		Caller: c.Caller, Python: c.Python, Operator: c.Operator, Ranges: c.Ranges}
}

// A thread is a thread of a program that makes calls.
type thread struct {
	*timeline.Thread
	tid   uint32  // host TID
	open  []*call // outermost first
	known uint64  // all calls that begin before this time are placed
}

// opened returns the start of the first open call with a correlation ID.
func (t *thread) opened(correlation uint32) uint64 {
	for _, c := range t.open {
		if c.Correlation == correlation && c.state&committed == 0 {
			return c.Start
		}
	}
	return timeline.Never
}

// A state has the sources of a call and its progress.
type state uint16

const (
	fromPair state = 1 << iota
	fromAPI
	hasPartner // a runtime record that contains its driver call's pair
	isPartner  // the driver call's pair in such a record
	closed     // nothing more can lie within it or be merged with it
	committed  // still open, but shown: nothing more is merged with it
	awaiting   // GPU work with its correlation ID may still come
	launching  // its function launches a kernel and does nothing else on the GPU
	innerPair  // a runtime call's pair that includes the pair of its driver call
	innerAPI   // a runtime call's pair that includes the API record of its driver call

	source = fromPair | fromAPI | hasPartner | isPartner | innerAPI
)

// A correlationTable matches the calls of a program with the GPU work that has their
// correlation IDs. It holds the calls that are not shown yet, and the work whose call was not
// found. CUPTI counts correlation IDs up, so an array nearly always suffices: IDs that are
// close together do not collide in it.
type correlationTable struct {
	slots    []correlationSlot
	used     int
	more     map[uint32]*correlationSlot // slots whose place in the array is taken
	waiting  []waitingWork
	free     int32  // 1 + index of the first unused one in waiting; the unused ones form a list
	searched uint64 // value of calls when more was full and was last searched for stale slots
	calls    uint64 // all calls that begin before this time are known
	held     []heldWork
}

// A correlationSlot belongs to one correlation ID. It has the ID's calls, or the ID's work
// without a call.
//
// Nearly every ID has one call. CUPTI gives the calls of the driver that a function of the runtime makes the ID
// of the runtime's call, so a call that carries out a copy or a memset in pieces has several.
type correlationSlot struct {
	correlation uint32
	used        bool
	first       int32 // 1 + index of the first waiting work, 0 for none
	call        *call // the first call by start, which leads to the next one; nil for none
}

// A heldWork is work of which several calls may be the cause. The cause is certain when all calls of their thread are
// known that begin before the work.
type heldWork struct {
	waitingWork
	correlation uint32
}

// mostCalls bounds the calls of a slot: each piece of work looks at all of them. A call beyond it is shown without its
// work, and counts as forced.
const mostCalls = 64

// insertCall inserts a call in the order of starts. It reports whether the first call had to go.
func (s *correlationSlot) insertCall(c *call) (full bool) {
	n, at := 0, &s.call
	for p := &s.call; *p != nil; p = &(*p).next {
		n++
		if (*p).Start < c.Start || (*p).Start == c.Start && (*p).Depth < c.Depth {
			at = &(*p).next
		}
	}
	c.next, *at = *at, c
	if n == mostCalls {
		s.call = s.call.next
	}
	return n == mostCalls
}

// remove removes a call. It reports whether the call was there.
func (s *correlationSlot) remove(c *call) bool {
	for p := &s.call; *p != nil; p = &(*p).next {
		if *p == c {
			*p, c.next = c.next, nil
			return true
		}
	}
	return false
}

// cause returns the call that caused the work that starts at a time. Each call causes work in its turn; work begins
// after its call does.
func (s *correlationSlot) cause(start uint64) *call {
	if s.call.next == nil {
		return s.call
	}
	if start == 0 { // not known
		start = timeline.Never
	}
	var latest *call
	for c := s.call; c != nil; c = c.next {
		switch {
		case !c.mayCause():
			continue
		case c.Start > start && latest != nil:
			return latest
		case c.Start > start || !c.HasWork(): // a clock may be wrong
			return c
		}
		latest = c
	}
	return cmp.Or(latest, s.call)
}

// mayCause reports whether a call of several with one correlation ID may have caused work.
func (c *call) mayCause() bool {
	return c.Ret == 0 && (c.fn.MayWork || !c.fn.Known || c.state&innerAPI != 0)
}

// holdsCause reports whether the slot has a call inside c that may have caused work: the record of c is that of the
// runtime, and the driver's call did the work.
func (s *correlationSlot) holdsCause(c *call) bool {
	if c.state&innerAPI != 0 { // the record is that of the driver
		return false
	}
	for o := s.call; o != nil; o = o.next {
		if o.Depth > c.Depth && o.Start >= c.Start && o.End <= c.End && o.thread == c.thread && o.mayCause() {
			return true
		}
	}
	return false
}

// A stream is a stream of one program.
type stream struct {
	out     *timeline.Stream
	waits   *waitStream          // nil where no call waits
	pending queue[timeline.Work] // work whose call is not known, and the work after it
}

// A waitingWork is a piece of work whose call has not come.
type waitingWork struct {
	stream  *stream
	held    *timeline.Work // work that can't be placed without its call; nil for other work
	id      uint64
	shape   *timeline.Shape
	start   uint64
	nth     uint64 // number in stream.pending; Never for work that is not there
	awaited uint64 // number in stream.waits; Never for work that is not there
	next    int32
	graph   uint32 // Work.Graph
	body    bool   // see graphs
}

// The table has room for all calls and work that a Budget lets wait for each other. Others count as forced.
const (
	firstSlots = 1 << 10
	mostSlots  = 1 << 18
	mostMore   = 1 << 19
)

func (t *correlationTable) find(correlation uint32) *correlationSlot {
	if len(t.slots) == 0 {
		return nil
	}
	slot := &t.slots[int(correlation)&(len(t.slots)-1)]
	if slot.used && slot.correlation == correlation {
		return slot
	}
	if len(t.more) == 0 {
		return nil
	}
	return t.more[correlation]
}

// slot finds or makes the slot of a correlation ID. It is nil when there is no room.
func (t *correlationTable) slot(correlation uint32) *correlationSlot {
	if slot := t.find(correlation); slot != nil {
		return slot
	}
	if len(t.slots) == 0 {
		t.slots = make([]correlationSlot, firstSlots)
	}
	slot := &t.slots[int(correlation)&(len(t.slots)-1)]
	for slot.used && t.used > len(t.slots)/8 && len(t.slots) < mostSlots {
		t.grow()
		slot = &t.slots[int(correlation)&(len(t.slots)-1)]
	}
	if slot.used && t.stale(slot) {
		t.drop(slot)
	}
	if !slot.used {
		t.used++
		*slot = correlationSlot{correlation: correlation, used: true}
		return slot
	}
	return t.collided(correlation)
}

// longBefore is the largest time, in ns, by which a call may seem to begin after its work when
// a clock is wrong.
const longBefore = 1e9

// stale reports whether a slot has only work whose call will not come.
func (t *correlationTable) stale(slot *correlationSlot) bool {
	return slot.call == nil && slot.first != 0 && timeline.End(t.waiting[slot.first-1].start, longBefore) < t.calls
}

// collided makes a slot outside the array.
func (t *correlationTable) collided(correlation uint32) *correlationSlot {
	if t.more == nil {
		t.more = make(map[uint32]*correlationSlot)
	}
	if len(t.more) >= mostMore {
		if t.searched == t.calls {
			return nil
		}
		t.searched = t.calls
		for _, slot := range t.more {
			if t.stale(slot) {
				t.drop(slot)
			}
		}
		if len(t.more) >= mostMore {
			return nil
		}
	}
	slot := &correlationSlot{correlation: correlation, used: true}
	t.more[correlation] = slot
	return slot
}

// grow doubles the array. Slots outside the array stay there.
func (t *correlationTable) grow() {
	old := t.slots
	t.slots = make([]correlationSlot, 2*len(old))
	for i := range old {
		if old[i].used {
			t.slots[int(old[i].correlation)&(len(t.slots)-1)] = old[i]
		}
	}
}

// drop frees a slot. The slot's work stays without a call.
func (t *correlationTable) drop(slot *correlationSlot) {
	for at := slot.first; at != 0; {
		next := t.waiting[at-1].next
		t.waiting[at-1] = waitingWork{next: t.free}
		t.free, at = at, next
	}
	if main := &t.slots[int(slot.correlation)&(len(t.slots)-1)]; main == slot {
		*slot = correlationSlot{}
		t.used--
		return
	}
	delete(t.more, slot.correlation)
}

// keep adds work whose call has not come.
func (t *correlationTable) keep(slot *correlationSlot, w waitingWork) {
	at := t.free
	if at != 0 {
		t.free = t.waiting[at-1].next
	} else {
		t.waiting = append(t.waiting, waitingWork{})
		at = int32(len(t.waiting))
	}
	w.next = slot.first
	t.waiting[at-1] = w
	slot.first = at
}

// reverse puts the waiting work of a slot into the order in which they came.
func (t *correlationTable) reverse(slot *correlationSlot) {
	var turned, next int32
	for at := slot.first; at != 0; at = next {
		next = t.waiting[at-1].next
		t.waiting[at-1].next = turned
		turned = at
	}
	slot.first = turned
}

// popWork removes the first waiting work of a slot.
func (t *correlationTable) popWork(slot *correlationSlot) waitingWork {
	at := slot.first
	w := t.waiting[at-1]
	slot.first = w.next
	t.waiting[at-1] = waitingWork{next: t.free}
	t.free = at
	return w
}

// certain returns the closed call, not shown yet, that caused the next work with a correlation ID whatever calls come
// later; nil for none.
func (t *correlationTable) certain(correlation uint32) *call {
	if slot := t.find(correlation); slot != nil && slot.call != nil {
		return slot.certain()
	}
	return nil
}

// certain is the same for a slot with a call. A launch has one kernel, a launch of a graph all of its work.
func (s *correlationSlot) certain() *call {
	if c := s.call; c.next == nil && (c.fn.LaunchesGraph || c.state&launching != 0 && !c.HasWork()) {
		return c
	}
	return nil
}

// release removes a call that is about to be shown.
func (t *correlationTable) release(c *call) {
	if c.Correlation == 0 {
		return
	}
	if slot := t.find(c.Correlation); slot != nil && slot.remove(c) && slot.call == nil {
		t.drop(slot)
	}
}

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
