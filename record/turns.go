package record

import (
	"sync/atomic"
	"time"
)

// turns gives one process after the other its turn to be probed. In a crowd a process waits only as long as it
// can.
type turns struct {
	turn    chan struct{}
	waiting atomic.Int64
	took    atomic.Int64 // ns, the mean of a turn, in which later turns count more
}

// leastTurn is how long a turn takes at least beside many others that wait for theirs.
const leastTurn = 20 * time.Millisecond

// newTurns returns turns of which nobody has one.
func newTurns() *turns {
	t := &turns{turn: make(chan struct{}, 1)}
	t.took.Store(int64(leastTurn))
	return t
}

// turnCrowd is the number of processes that wait at the same time from which on there may be no time for
// all. Fewer are all probed, however slow the machine is.
const turnCrowd = 16

// takeTurn waits for a turn. In a crowd it returns false when the time is over, and at once if it is
// going to be.
func (t *turns) takeTurn(patience time.Duration) bool {
	before := t.waiting.Add(1) - 1
	defer t.waiting.Add(-1)
	if before < turnCrowd {
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

// endTurn ends a turn that began at that time.
func (t *turns) endTurn(began time.Time) {
	took, mean := max(time.Since(began), leastTurn), time.Duration(t.took.Load())
	t.took.Store(int64(mean + (took-mean)/turnWeight))
	<-t.turn
}

// turnWeight is the part of the mean that a turn changes: one slow turn among many does not turn a crowd away.
const turnWeight = 8
