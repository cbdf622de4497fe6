package join

import "github.com/cudatrace/cudatrace/convert/timeline"

// A correlationTable matches the calls of a program with the GPU work that has their
// correlation IDs. It holds the calls that are not shown yet, and the work whose call was not
// found. CUPTI counts correlation IDs up, so an array nearly always suffices: IDs that are
// close together do not collide in it.
type correlationTable struct {
	slots    []correlationSlot
	used     int
	more     map[uint32]*correlationSlot // slots whose place in the array is taken
	orphans  []orphan
	free     int32  // 1 + index of the first unused orphan; unused orphans form a list
	searched uint64 // value of calls when more was full and was last searched for stale slots
	calls    uint64 // all calls that begin before this time are known
}

// A correlationSlot belongs to one correlation ID. It has the ID's call, or the ID's work
// without a call.
type correlationSlot struct {
	correlation uint32
	used        bool
	first       int32 // 1 + index of the first orphan, 0 for none
	call        *call
}

// An orphan is a piece of work whose call has not come.
type orphan struct {
	stream  *stream
	held    *timeline.Work // work that can't be placed without its call; nil for other work
	id      uint64
	shape   *timeline.Shape
	start   uint64
	nth     uint64 // number in stream.pending; Never for work that is not there
	awaited uint64 // number in stream.waits; Never for work that is not there
	next    int32
	body    bool // see graphs
}

const (
	firstSlots = 1 << 10
	mostSlots  = 1 << 18
	mostMore   = 1 << 17
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

// fresh makes the slot of an unknown correlation ID, if its place in the array is free.
func (t *correlationTable) fresh(correlation uint32) *correlationSlot {
	if len(t.slots) == 0 || len(t.more) > 0 {
		return nil
	}
	slot := &t.slots[int(correlation)&(len(t.slots)-1)]
	if slot.used {
		return nil
	}
	t.used++
	slot.correlation, slot.used, slot.first = correlation, true, 0
	return slot
}

// longBefore is the largest time, in ns, by which a call may seem to begin after its work when
// a clock is wrong.
const longBefore = 1e9

// stale says whether a slot has only work whose call will not come.
func (t *correlationTable) stale(slot *correlationSlot) bool {
	return slot.call == nil && slot.first != 0 && timeline.End(t.orphans[slot.first-1].start, longBefore) < t.calls
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

// drop frees a slot. The slot's orphans stay without a call.
func (t *correlationTable) drop(slot *correlationSlot) {
	for at := slot.first; at != 0; {
		next := t.orphans[at-1].next
		t.orphans[at-1] = orphan{next: t.free}
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
func (t *correlationTable) keep(slot *correlationSlot, w orphan) {
	at := t.free
	if at != 0 {
		t.free = t.orphans[at-1].next
	} else {
		t.orphans = append(t.orphans, orphan{})
		at = int32(len(t.orphans))
	}
	w.next = slot.first
	t.orphans[at-1] = w
	slot.first = at
}

// reverse puts the orphans of a slot into the order in which they came.
func (t *correlationTable) reverse(slot *correlationSlot) {
	var turned, next int32
	for at := slot.first; at != 0; at = next {
		next = t.orphans[at-1].next
		t.orphans[at-1].next = turned
		turned = at
	}
	slot.first = turned
}

// take removes the first orphan of a slot.
func (t *correlationTable) take(slot *correlationSlot) orphan {
	at := slot.first
	w := t.orphans[at-1]
	slot.first = w.next
	t.orphans[at-1] = orphan{next: t.free}
	t.free = at
	return w
}

// callOf returns the closed call with a correlation ID that is not shown yet, nil for none.
func (t *correlationTable) callOf(correlation uint32) *call {
	if slot := t.find(correlation); slot != nil {
		return slot.call
	}
	return nil
}

// release removes a call that is about to be shown.
func (t *correlationTable) release(c *call) {
	if c.Correlation == 0 {
		return
	}
	if slot := t.find(c.Correlation); slot != nil && slot.call == c {
		t.drop(slot)
	}
}
