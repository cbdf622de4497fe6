// Package turns lets one process after the other be probed. In: processes that want to be, each with the time for
// which it can wait. Out: whose turn it is, and who gets none.
package turns

import (
	"sync/atomic"
	"time"
)

// Turns gives one process after the other its turn. In a crowd a process waits only as long as it
// can.
type Turns struct {
	turn    chan struct{}
	waiting atomic.Int64
	took    atomic.Int64 // ns, as long as the last turn took
}

// leastTurn is how long a turn takes at least beside many others that wait for theirs.
const leastTurn = 20 * time.Millisecond

// New returns Turns of which nobody has one.
func New() *Turns {
	t := &Turns{turn: make(chan struct{}, 1)}
	t.took.Store(int64(leastTurn))
	return t
}

// crowd is the number of processes that wait at the same time from which on there may be no time for
// all. Fewer are all probed, however slow the machine is.
const crowd = 16

// Take waits for a turn. In a crowd it returns false when the time is over, and at once if it is
// going to be.
func (t *Turns) Take(patience time.Duration) bool {
	before := t.waiting.Add(1) - 1
	defer t.waiting.Add(-1)
	if before < crowd {
		t.turn <- struct{}{}
		return true
	}
	if time.Duration(before*t.took.Load()) > patience {
		return false
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case t.turn <- struct{}{}:
		return true
	case <-over.C:
		return false
	}
}

// Give ends a turn that began at that time.
func (t *Turns) Give(began time.Time) {
	t.took.Store(int64(max(time.Since(began), leastTurn)))
	<-t.turn
}
