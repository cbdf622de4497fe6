package selection

import (
	"fmt"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// stackOf returns a stack of ranges NAME or NAME@DOMAIN, the outermost one first.
func stackOf(ranges ...*timeline.Range) (s *timeline.RangeStack) {
	for _, r := range ranges {
		s = &timeline.RangeStack{Range: r, Outer: s}
	}
	return s
}

func TestWithinRanges(t *testing.T) {
	t.Parallel()
	step, other := &timeline.Range{Name: "step/1"}, &timeline.Range{Name: "load"}
	model := &timeline.Range{Name: "step/1", Domain: "model"}
	for _, c := range []struct {
		glob  string
		stack *timeline.RangeStack
		want  bool
	}{
		{"", nil, true}, // no pattern
		{"", stackOf(step), true},
		{"step*", nil, false},
		{"step*", stackOf(step), true},
		{"step*", stackOf(step, other, other), true},
		{"step*", stackOf(other, step), true},
		{"step*", stackOf(other), false},
		{"step*", stackOf(model), true},
		{"*@model", stackOf(model), true},
		{"*@model", stackOf(step), false},
		{"step/1@model", stackOf(step, model), true},
		{"step", stackOf(step), true},
		{"step", stackOf(model), true},
		{"step@", stackOf(model), false},
		{"step@", stackOf(step), true},
		{"step@m*", stackOf(model), true},
		{"ste", stackOf(step), false},
	} {
		ranges, err := pattern.ParseRanges(c.glob)
		if c.glob != "" && err != nil {
			t.Fatal(err)
		}
		s := New(Options{NVTX: ranges, Shortest: 1})
		for range 2 { // the answer is kept
			got := s.Work(&timeline.Work{Dur: 1, Shape: &timeline.Shape{}, Call: timeline.Call{Ranges: c.stack}})
			sl := call("f", 1)
			sl.Ranges = c.stack
			span := s.Span(&timeline.Span{Name: "r", End: 1, Ranges: c.stack})
			if got != c.want || s.Slice(sl) != c.want || s.Causes(sl) != c.want || span != c.want {
				t.Errorf("%q chooses %v: %t, want %t", c.glob, c.stack, got, c.want)
			}
		}
	}
}

// What was there is counted, and few names are kept.
func TestSeenRanges(t *testing.T) {
	t.Parallel()
	s := New(Options{NVTX: pattern.Ranges{Name: "step*", Domain: "*"}})
	for i := range uint64(2 * mostMatches) {
		s.Ranges.Saw(&timeline.Span{Start: 50 - i%2, Ranges: stackOf(&timeline.Range{Name: "step"})})
		s.Ranges.Saw(&timeline.Span{Start: 1, Ranges: stackOf(&timeline.Range{Name: fmt.Sprint(i)})})
		s.Ranges.Saw(&timeline.Span{Start: 1, Ranges: stackOf(&timeline.Range{Name: "again"})})
	}
	r := &s.Ranges
	if r.Matched != 2*mostMatches || r.First != 49 || len(r.Names) != mostNames || r.Names[1] != "again" || len(r.matches) != mostMatches {
		t.Errorf("%d ranges match from %d on, %d names, %d known", r.Matched, r.First, len(r.Names), len(r.matches))
	}
}
