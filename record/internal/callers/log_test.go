package callers

import "testing"

// Each chain has an ID, its own or a new one, also where it is left out: because too many chains wait for their
// records, or the log is finished.
func TestWaitingChains(t *testing.T) {
	l := &Log{resolver: newResolver(Options{}), queue: make(chan func(), 1)}
	for _, c := range []struct {
		own, id uint32
		left    uint64
	}{{0, 1, 0}, {0, 2, 1}, {7, 7, 2}} {
		if id := l.Add(Chain{ID: c.own}); id != c.id || l.Left() != c.left {
			t.Errorf("chain %d is %d, %d chains are left out", c.own, id, l.Left())
		}
	}
	l.Finish()
	if id := l.Add(Chain{}); id != 3 || l.Left() != 3 {
		t.Errorf("after the end: chain %d, %d chains are left out", id, l.Left())
	}
}
