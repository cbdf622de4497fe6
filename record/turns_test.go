package record

import (
	"testing"
	"time"
)

// A process that cannot be probed in time does not wait for its turn.
func TestTurns(t *testing.T) {
	turns := newTurns()
	if !turns.take(time.Hour) {
		t.Fatal("the first has no turn")
	}
	if turns.take(time.Millisecond) {
		t.Error("two have a turn at a time")
	}
	next := make(chan bool)
	go func() { next <- turns.take(time.Hour) }()
	for turns.waiting.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if turns.take(leastTurn - 1) {
		t.Error("one that can wait for less than a turn has one")
	}
	turns.give(time.Now().Add(-time.Minute))
	if !<-next {
		t.Error("the second has no turn")
	}
	go func() { next <- turns.take(time.Hour) }()
	for turns.waiting.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if turns.take(59 * time.Second) { // returns at once: a turn takes a minute
		t.Error("one waits for a turn that comes too late")
	}
	turns.give(time.Now())
	if !<-next {
		t.Error("the third has no turn")
	}
}
