package join

import (
	"fmt"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// names names the ranges of a stack, the outermost one first.
func names(stack *timeline.RangeStack) string {
	list := []string{}
	for _, s := range stack.Path(nil) {
		list = append(list, s.Name)
	}
	return fmt.Sprint(list)
}

func TestRangesAt(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	r.take(start(1, 1, 100, "outer"), start(2, 2, 110, "other thread"), start(1, 3, 200, "inner"), mark(1, 250, "mark"))
	r.take(inDomain("d", start(1, 4, 300, "crossing"))...)
	r.take(end(1, 3, 400), end(2, 4, 500), end(1, 99, 510), start(0, 5, 520, "no thread"), start(1, 6, 530, "again"), end(1, 1, 600))
	r.take(start(1, 6, 610, "number used twice"))
	r.known(700)
	for _, c := range []struct {
		tid   uint32
		at    uint64
		want  string
		known bool
	}{
		{1, 99, "[]", true},
		{1, 100, "[outer]", true},
		{1, 199, "[outer]", true},
		{1, 200, "[outer inner]", true},
		{1, 260, "[outer inner]", true},
		{1, 350, "[outer inner crossing]", true},
		{1, 400, "[outer crossing]", true},
		{1, 500, "[outer]", true}, // ended on another thread
		{2, 200, "[other thread]", true},
		{3, 200, "[]", true},
		{3, 700, "[]", false},
		{1, 599, "[outer again]", true},
		{1, 600, "[again]", true},
		{1, 650, "[number used twice]", true},
		{1, 600, "[]", false}, // passed
		{1, 700, "[]", false}, // not known yet
	} {
		stack, known := r.at(c.tid, c.at)
		if got := names(stack); got != c.want || known != c.known {
			t.Errorf("thread %d at %d: %s, %t; want %s, %t", c.tid, c.at, got, known, c.want, c.known)
		}
	}
}

// A range knows its length once it has ended.
func TestRangeDuration(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	r.take(start(1, 1, 100, "range"), start(1, 2, 110, "empty"), end(1, 2, 110))
	r.known(timeline.Never)
	stack, _ := r.at(1, 105)
	if dur, known := stack.Duration(); known {
		t.Errorf("a range without an end took %d ns", dur)
	}
	inner, _ := r.at(1, 110)
	r.take(end(1, 1, 140))
	if dur, known := stack.Duration(); dur != 40 || !known {
		t.Errorf("it took %d ns, %t", dur, known)
	}
	if inner.Range != stack.Range {
		t.Error("an empty range is open at its end")
	}
}

// Changes that no call asks for are passed.
func TestRangeChangesArePassed(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	for i := range uint32(1000) {
		at := uint64(10 * i)
		r.take(start(1+i%2, i, at, "r"), end(1+i%2, i, at+5))
		r.known(at)
		r.passed(func(uint32) uint64 { return at })
		if r.stacks.held > 2 {
			t.Fatalf("%d changes are held", r.stacks.held)
		}
	}
	if kept := len(r.stacks.threads[1].changes); kept > 8 {
		t.Errorf("%d changes are in memory", kept)
	}
}

// Few changes are held back, even if calls lag far behind.
func TestRangeChangesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	const last = maxHeldChanges/2 + 100
	for i := range uint32(last) {
		r.take(start(1+i%2, i, uint64(10*i), "r"), end(1+i%2, i, uint64(10*i+5)))
		if r.stacks.held > maxHeldChanges+1 {
			t.Fatalf("%d changes are held", r.stacks.held)
		}
	}
	r.known(timeline.Never)
	if _, known := r.at(1, 10); known {
		t.Error("the ranges of a call of long ago are known")
	}
	if stack, known := r.at(1, 10*(last-2)+1); !known || names(stack) != "[r]" {
		t.Errorf("the latest ranges are %s, %t", names(stack), known)
	}
}

// Ranges that are nested too deeply have tracks, but no work.
func TestRangeDepthIsBounded(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	for i := range uint32(2 * maxRangeDepth) {
		r.take(start(1, i, uint64(i), "r"))
	}
	r.known(timeline.Never)
	depth := func(at uint64) int {
		stack, _ := r.at(1, at)
		return len(stack.Path(nil))
	}
	if d := depth(1000); d != maxRangeDepth {
		t.Errorf("%d ranges are around a call", d)
	}
	for i := range uint32(2*maxRangeDepth - 1) {
		r.take(end(1, 2*maxRangeDepth-1-i, uint64(2000+i)))
	}
	if d := depth(5000); d != 1 {
		t.Errorf("%d ranges are left", d)
	}
	r.take(tracelog.Marker{TID: 1, ID: 0, Time: 6000, Flags: tracelog.MarkerEnd})
	if d := depth(7000); d != 0 {
		t.Errorf("%d ranges are left at the end", d)
	}
}
