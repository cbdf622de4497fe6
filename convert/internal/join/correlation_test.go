package join

import "testing"

// A table that is full of work whose calls are still to come takes no more, and does not
// go through all of it for each piece that it turns away: with that, this test would take
// minutes.
func TestFullCorrelationTable(t *testing.T) {
	t.Parallel()
	var j correlationTable
	taken := 0
	for i := range uint32(mostSlots + 3*mostMore) {
		if slot := j.slot(i + 1); slot != nil {
			j.keep(slot, waitingWork{id: uint64(i), start: 1})
			taken++
		}
	}
	if taken != mostSlots+mostMore {
		t.Errorf("%d pieces of work have a slot, want %d", taken, mostSlots+mostMore)
	}
	j.calls = 1 + longBefore + 1 // no call for any of them will come
	if slot := j.slot(1 << 30); slot == nil || slot.correlation != 1<<30 {
		t.Error("what no call will come for has not made room")
	}
}
