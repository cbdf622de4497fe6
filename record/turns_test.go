package record

import (
	"testing"
	"time"
)

// Few processes wait for their turns, however long it takes. In a crowd a process that cannot be
// probed in time does not wait.
func TestTurns(t *testing.T) {
	turns := newTurns()
	if !turns.takeTurn(0) {
		t.Fatal("the first has no turn")
	}
	done := make(chan bool)
	wait := func(patience time.Duration, waiting int64) {
		go func() { done <- turns.takeTurn(patience) }()
		for turns.waiting.Load() < waiting {
			time.Sleep(time.Millisecond)
		}
	}
	for n := range int64(turnCrowd) {
		wait(0, n+1)
	}
	if turns.takeTurn(turnCrowd*leastTurn - 1) {
		t.Error("one of a crowd that can wait for less than the turns of the others has one")
	}
	wait(time.Hour, turnCrowd+1)
	turns.endTurn(time.Now().Add(-time.Minute))
	if !<-done {
		t.Error("the second has no turn")
	}
	wait(time.Hour, turnCrowd+1)
	if turns.takeTurn(turnCrowd*time.Minute/turnWeight - 1) { // returns at once: the mean of a turn is more than that
		t.Error("one waits for a turn that comes too late")
	}
	for range turnCrowd + 1 {
		turns.endTurn(time.Now())
		if !<-done {
			t.Error("one that waits has no turn")
		}
	}
}

// One slow turn after many turns away no process of a crowd that has time for turns such as the others.
func TestSlowTurn(t *testing.T) {
	turns := newTurns()
	for range 100 {
		turns.takeTurn(0)
		turns.endTurn(time.Now())
	}
	turns.takeTurn(0)
	turns.endTurn(time.Now().Add(-time.Second))
	if mean := time.Duration(turns.took.Load()); 60*mean > 9*time.Second {
		t.Errorf("the mean of a turn is %v", mean)
	}
}
