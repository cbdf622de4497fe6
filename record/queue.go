package record

import "time"

// A queue decides which process is probed next: one after the other. In a crowd a process waits only as long as it
// can. It belongs to the goroutine of the session.
type queue struct {
	waiting []*recordedProcess
	busy    bool          // one is being probed
	took    time.Duration // the mean of a turn, in which later turns count more; 0 before the first
}

const (
	// leastTurn is how long a turn takes at least beside many others that wait for theirs.
	leastTurn = 20 * time.Millisecond
	// crowd is the number of processes that wait at the same time from which on there may be no time for
	// all.
	crowd = 16
	// turnWeight is the part of the mean that a turn changes: one slow turn among many does not turn a crowd away.
	turnWeight = 8
)

// add has a process wait for its turn. In a crowd it returns false if that comes after the process's patience.
func (q *queue) add(p *recordedProcess, patience time.Duration) bool {
	if n := len(q.waiting); n >= crowd && time.Duration(n)*max(q.took, leastTurn) > patience {
		return false
	}
	q.waiting = append(q.waiting, p)
	return true
}

// next returns the process whose turn begins, nil for none. One that waits no longer has none.
func (q *queue) next() *recordedProcess {
	for !q.busy && len(q.waiting) > 0 {
		p := q.waiting[0]
		q.waiting = q.waiting[1:]
		if p.reply != nil {
			q.busy = true
			return p
		}
	}
	return nil
}

// done ends a turn, which took so long.
func (q *queue) done(took time.Duration) {
	q.busy = false
	mean := max(q.took, leastTurn)
	q.took = mean + (max(took, leastTurn)-mean)/turnWeight
}
