package join

import "github.com/cudatrace/cudatrace/convert/timeline"

// A correlationTable brings the calls of a program together with the GPU work that has
// their correlation IDs. It holds the calls that are not shown yet, and the work that no
// call was found for. CUPTI counts correlation IDs, so that nearly always an array
// serves, in which IDs that are close together do not collide.
type correlationTable struct {
	slots    []correlationSlot
	used     int
	more     map[uint32]*correlationSlot // what collides in slots
	orphans  []orphan
	free     int32  // 1 + the first orphan without a use; these lead to one another
	searched uint64 // calls, when more was full and was searched for what can go
	calls    uint64 // all calls that begin before are known
}

// A correlationSlot is of one correlation ID: its call, or what work there is without
// one.
type correlationSlot struct {
	correlation uint32
	used        bool
	first       int32 // 1 + the first orphan, 0 without any
	call        *call
}

// An orphan is a piece of work whose call has not come.
type orphan struct {
	stream  *stream
	held    *timeline.Work // can't be placed without its call; nil for other work
	id      uint64
	start   uint64
	nth     uint64 // in stream.pending, Never for work that is not there
	awaited uint64 // in stream.waits, Never for work that is not there
	next    int32
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

// slot finds the slot of a correlation ID or makes one. It is nil when there is no room.
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

// fresh makes the slot of a correlation ID of which nothing is known, if that is simple.
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

// longBefore is by how much a call may seem to begin after its work, ns, where a clock
// is wrong.
const longBefore = 1e9

// stale says whether a slot has work that no call will come for.
func (t *correlationTable) stale(slot *correlationSlot) bool {
	return slot.call == nil && slot.first != 0 && timeline.End(t.orphans[slot.first-1].start, longBefore) < t.calls
}

// collided makes a slot beside the array.
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

// grow doubles the array. What collided in the smaller one stays beside it.
func (t *correlationTable) grow() {
	old := t.slots
	t.slots = make([]correlationSlot, 2*len(old))
	for i := range old {
		if old[i].used {
			t.slots[int(old[i].correlation)&(len(t.slots)-1)] = old[i]
		}
	}
}

// drop frees a slot. Its orphans stay without a call.
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

// keep keeps work whose call has not come.
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

// reverse puts the orphans of a slot in the order in which they came.
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

// callOf returns the call with a correlation ID that is closed and not shown, nil
// without one.
func (t *correlationTable) callOf(correlation uint32) *call {
	if slot := t.find(correlation); slot != nil {
		return slot.call
	}
	return nil
}

// release forgets a call that is about to be shown.
func (t *correlationTable) release(c *call) {
	if c.Correlation == 0 {
		return
	}
	if slot := t.find(c.Correlation); slot != nil && slot.call == c {
		t.drop(slot)
	}
}
