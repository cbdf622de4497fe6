package record

import (
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/cupti"
)

// waits is a process that waits for the answer to its hello.
func waits() *recordedProcess { return &recordedProcess{reply: make(chan cupti.GoConfig, 1)} }

// Few processes wait for their turns, however long it takes. In a crowd a process that cannot be
// probed in time does not wait.
func TestTurns(t *testing.T) {
	t.Parallel()
	var q queue
	first := waits()
	if !q.add(first, 0) || q.next() != first || q.next() != nil {
		t.Fatal("the first has no turn")
	}
	for range crowd {
		if !q.add(waits(), 0) {
			t.Error("one of a few has no turn")
		}
	}
	if q.add(waits(), crowd*leastTurn-1) {
		t.Error("one of a crowd that can wait for less than the turns of the others has one")
	}
	if !q.add(waits(), time.Hour) {
		t.Error("one of a crowd that can wait has no turn")
	}
	q.done(time.Minute)
	q.waiting[0].reply = nil
	if second := q.waiting[1]; q.next() != second {
		t.Error("one that waits no longer has a turn, or the second has none")
	}
	for len(q.waiting) < crowd {
		q.add(waits(), time.Hour)
	}
	if q.add(waits(), crowd*time.Minute/turnWeight-1) { // the mean of a turn is more than that
		t.Error("one waits for a turn that comes too late")
	}
	for range crowd {
		q.done(0)
		if q.next() == nil {
			t.Error("one that waits has no turn")
		}
	}
}

// One slow turn after many turns away no process of a crowd that has time for turns such as the others.
func TestSlowTurn(t *testing.T) {
	t.Parallel()
	var q queue
	for range 100 {
		q.done(0)
	}
	q.done(time.Second)
	if 60*q.took > 9*time.Second {
		t.Errorf("the mean of a turn is %v", q.took)
	}
}
