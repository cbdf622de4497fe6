package convert

import "slices"

// A joinTable brings the calls of a session together with the GPU work that has their
// correlation IDs. It holds the calls that are not shown yet, and the work that no call
// was found for; CUPTI counts correlation IDs, so that nearly always an array serves,
// in which what is close together does not collide.
type joinTable struct {
	slots  []joinSlot
	used   int
	more   map[uint32]*joinSlot // what collides in slots
	claims []claim              // of work without a call
	free   int32                // 1 + the first of these without a use, which lead to one another
	looked uint64               // calls when more was full and was searched for what can go
	calls  uint64               // all calls that begin before are known
}

// A joinSlot is of one correlation ID: its call, or what work there is without one.
type joinSlot struct {
	correlation uint32
	used        bool
	first       int32 // 1 + the first claim, 0 without any
	call        *Slice
}

// A claim is a piece of work that is to be joined with its call.
type claim struct {
	id, start uint64
	queue     *workQueue
	held      *Work  // what is shown only when its call is known
	serial    uint64 // of the work in its queue, see workQueue.recent
	next      int32
}

const (
	firstSlots = 1 << 10
	mostSlots  = 1 << 18
	mostMore   = 1 << 17
)

func (j *joinTable) find(correlation uint32) *joinSlot {
	if len(j.slots) == 0 {
		return nil
	}
	slot := &j.slots[int(correlation)&(len(j.slots)-1)]
	if slot.used && slot.correlation == correlation {
		return slot
	}
	if len(j.more) == 0 {
		return nil
	}
	return j.more[correlation]
}

// slot finds the slot of a correlation ID or makes one. It is nil when there is no room.
func (j *joinTable) slot(correlation uint32) *joinSlot {
	if slot := j.find(correlation); slot != nil {
		return slot
	}
	if len(j.slots) == 0 {
		j.slots = make([]joinSlot, firstSlots)
	}
	slot := &j.slots[int(correlation)&(len(j.slots)-1)]
	for slot.used && j.used > len(j.slots)/8 && len(j.slots) < mostSlots {
		j.grow()
		slot = &j.slots[int(correlation)&(len(j.slots)-1)]
	}
	if slot.used && j.stale(slot) {
		j.drop(slot)
	}
	if !slot.used {
		j.used++
		*slot = joinSlot{correlation: correlation, used: true}
		return slot
	}
	return j.further(correlation)
}

// fresh makes the slot of a correlation ID of which nothing is known, if that is simple.
func (j *joinTable) fresh(correlation uint32) *joinSlot {
	if len(j.slots) == 0 || len(j.more) > 0 {
		return nil
	}
	slot := &j.slots[int(correlation)&(len(j.slots)-1)]
	if slot.used {
		return nil
	}
	j.used++
	slot.correlation, slot.used, slot.first = correlation, true, 0
	return slot
}

// longBefore is by how much a call may seem to begin after its work, ns, where a clock is
// wrong.
const longBefore = 1e9

// stale says whether a slot has work that no call will come for.
func (j *joinTable) stale(slot *joinSlot) bool {
	return slot.call == nil && slot.first != 0 && end(j.claims[slot.first-1].start, longBefore) < j.calls
}

// further makes a slot beside the array.
func (j *joinTable) further(correlation uint32) *joinSlot {
	if j.more == nil {
		j.more = make(map[uint32]*joinSlot)
	}
	if len(j.more) >= mostMore {
		if j.looked == j.calls {
			return nil
		}
		j.looked = j.calls
		for _, slot := range j.more {
			if j.stale(slot) {
				j.drop(slot)
			}
		}
		if len(j.more) >= mostMore {
			return nil
		}
	}
	slot := &joinSlot{correlation: correlation, used: true}
	j.more[correlation] = slot
	return slot
}

// grow doubles the array. What collided in the smaller one stays beside it.
func (j *joinTable) grow() {
	old := j.slots
	j.slots = make([]joinSlot, 2*len(old))
	for i := range old {
		if old[i].used {
			j.slots[int(old[i].correlation)&(len(j.slots)-1)] = old[i]
		}
	}
}

// drop frees a slot with its claims, which stay unmatched.
func (j *joinTable) drop(slot *joinSlot) {
	for at := slot.first; at != 0; {
		next := j.claims[at-1].next
		j.claims[at-1] = claim{next: j.free}
		j.free, at = at, next
	}
	if main := &j.slots[int(slot.correlation)&(len(j.slots)-1)]; main == slot {
		*slot = joinSlot{}
		j.used--
		return
	}
	delete(j.more, slot.correlation)
}

// keep takes work whose call has not come.
func (j *joinTable) keep(slot *joinSlot, w claim) {
	at := j.free
	if at != 0 {
		j.free = j.claims[at-1].next
	} else {
		j.claims = append(j.claims, claim{})
		at = int32(len(j.claims))
	}
	w.next = slot.first
	j.claims[at-1] = w
	slot.first = at
}

// turn reverses the claims of a slot: they were put in front of one another.
func (j *joinTable) turn(slot *joinSlot) {
	var turned, next int32
	for at := slot.first; at != 0; at = next {
		next = j.claims[at-1].next
		j.claims[at-1].next = turned
		turned = at
	}
	slot.first = turned
}

// take removes the first claim of a slot.
func (j *joinTable) take(slot *joinSlot) claim {
	at := slot.first
	w := j.claims[at-1]
	slot.first = w.next
	j.claims[at-1] = claim{next: j.free}
	j.free = at
	return w
}

// register joins a call that is closed with its work, and makes it wait for what has not
// come.
func (c *converter) register(s *session, sl *Slice) {
	if sl.Correlation == 0 || !s.hasWork {
		return
	}
	slot := s.join.fresh(sl.Correlation)
	if slot != nil {
		slot.call = sl
		sl.state |= awaiting
		return
	}
	if slot = s.join.slot(sl.Correlation); slot == nil {
		return
	}
	if other := slot.call; other != nil && other.Depth > sl.Depth && other.Start >= sl.Start && other.End <= sl.End {
		return // the call inside this one has the same record
	}
	sl.state |= awaiting
	slot.call = sl
	s.join.turn(slot)
	for slot.first != 0 {
		w := s.join.take(slot)
		c.attach(&w, sl)
	}
}

// release forgets a call that is about to be shown.
func (c *converter) release(s *session, sl *Slice) {
	if sl.Correlation == 0 {
		return
	}
	if slot := s.join.find(sl.Correlation); slot != nil && slot.call == sl {
		s.join.drop(slot)
	}
}

// claim joins work with its call, now or when the call comes.
func (c *converter) claim(s *session, correlation uint32, w *claim) {
	if correlation == 0 {
		return
	}
	slot := s.join.find(correlation)
	if slot != nil && slot.call != nil {
		c.attach(w, slot.call)
		return
	}
	if slot == nil {
		slot = s.join.slot(correlation)
	}
	if slot != nil {
		s.join.keep(slot, *w)
	}
}

// attach ties work to its call. Work that CUPTI gave no times is placed at its
// call's return, with no length.
func (c *converter) attach(w *claim, sl *Slice) {
	sl.addWork(w.id)
	sl.Queue = w.queue.out
	c.found.work.matched++
	if w.held != nil {
		c.showHeld(w, sl)
	}
	if w.start != 0 && w.start < sl.Start {
		c.found.work.early++
	}
	w.queue.launched(w.serial, sl.Start)
	if j := w.queue.s.waits; j != nil {
		j.streams.learn(sl, w.queue)
	}
	if sl.state&launching != 0 {
		sl.state &^= awaiting // a launch has one kernel
	}
}

// showHeld gives the sink work that waited for its call.
func (c *converter) showHeld(w *claim, sl *Slice) {
	if w.held.Start == 0 {
		w.held.Start, w.held.Dur, w.held.Untimed = sl.End, 0, true
	}
	if c.ofCalls {
		c.found.work.count(w.held.Kind)
		c.found.left--
	}
	if c.showsWork(w.held) {
		c.chosen = nil
		c.sink.Queue(w.queue.out)
		c.sink.Work(w.held)
	}
}

// workProgress says how far the work of a session has been gone through.
type workProgress struct {
	worked uint64       // pieces of work so far
	marks  []workedMark // some of the past, by time
}

// workedMark says that all work that begins before low was among the first worked pieces.
type workedMark struct{ low, worked uint64 }

// step notes that all work before low has been gone through.
func (p *workProgress) step(low uint64) {
	if n := len(p.marks); n > 0 && p.marks[n-1].low >= low {
		return
	}
	i := 0
	for i < len(p.marks) && p.worked-p.marks[i].worked > windowWork {
		i++
	}
	if i > 1 { // the last of these still says when that was
		p.marks = p.marks[:copy(p.marks, p.marks[i-1:])]
	}
	p.marks = append(p.marks, workedMark{low, p.worked})
}

// past says whether so much work has begun after the end of a call that its own is not to
// be expected any more.
func (p *workProgress) past(sl *Slice) bool {
	i, _ := slices.BinarySearchFunc(p.marks, sl.End, func(m workedMark, at uint64) int {
		if m.low <= at {
			return -1
		}
		return 1
	})
	if i == len(p.marks) {
		return false
	}
	window := uint64(sl.window)
	if sl.Ret != 0 {
		window = min(window, windowOther)
	}
	return p.marks[i].low == never || p.worked-p.marks[i].worked >= window
}
