package timeline

import "testing"

func TestClock(t *testing.T) {
	t.Parallel()
	back := ^uint64(0) - 9 // -10
	fast := Lines(ClockLine{From: 1_000_000, To: 5_000_000, Rate: 1e-5})
	// The second line begins 40 ns below the end of the first one.
	two := Lines(ClockLine{From: 1_000_000, To: 5_000_000}, ClockLine{From: 2_000_000, To: 5_999_959})
	for name, c := range map[string]struct {
		clock *Clock
		at    [][2]uint64
	}{
		"the timeline's":       {&Clock{}, [][2]uint64{{0, 0}, {7, 7}}},
		"moved on":             {Shifted(5), [][2]uint64{{0, 5}, {7, 12}}},
		"moved back":           {Shifted(back), [][2]uint64{{10, 0}, {17, 7}}},
		"fast":                 {fast, [][2]uint64{{1_000_000, 5_000_000}, {1_100_000, 5_100_001}, {900_000, 4_899_999}, {2_000_000, 6_000_010}}},
		"lines that overlap":   {two, [][2]uint64{{1_999_999, 5_999_999}, {2_000_000, 5_999_999}, {2_000_030, 5_999_999}, {2_000_041, 6_000_000}}},
		"before the first one": {two, [][2]uint64{{0, 4_000_000}}},
	} {
		for _, at := range c.at {
			if got := c.clock.At(at[0]); got != at[1] {
				t.Errorf("%s: %d becomes %d, want %d", name, at[0], got, at[1])
			}
		}
	}
	if got := fast.Dur(1_000_000, 200_000); got != 200_002 {
		t.Errorf("200 µs last %d ns on a fast clock", got)
	}
	if got := fast.Dur(1_000_000, Never); got != Never {
		t.Errorf("a duration without end becomes %d", got)
	}
	if (&Clock{}).Same() != true || fast.Same() || Shifted(1).Same() {
		t.Error("which clock is the timeline's?")
	}
}

// What a piece of work and a span become keeps their order and their ends.
func TestMoveAlongLines(t *testing.T) {
	t.Parallel()
	c := Lines(ClockLine{From: 0, To: 100, Rate: 1e-3})
	l := &WorkList{List: []Work{{Start: 1_000_000, Dur: 10_000}, {Start: 1_010_000, Dur: 5_000}}}
	Move(l, c)
	if end := l.List[0].Start + l.List[0].Dur; end != l.List[1].Start || l.List[0].Start != 1_001_100 || l.List[1].Dur != 5005 {
		t.Errorf("work becomes %d+%d and %d+%d", l.List[0].Start, l.List[0].Dur, l.List[1].Start, l.List[1].Dur)
	}
}

// Times of one clock agree. Those of others are wrong by as much as both clocks are, where that is known.
func TestApart(t *testing.T) {
	t.Parallel()
	reference, fitted, unknown, far := new(Clock), Shifted(5), Shifted(6), Shifted(7)
	reference.Bound(ClockBound{Error: 0})
	fitted.Bound(ClockBound{Error: 30})
	far.Bound(ClockBound{Error: Never})
	growing := Shifted(8)
	growing.Bound(ClockBound{100, 50}, ClockBound{200, 10}, ClockBound{1100, 910})
	for at, want := range map[uint64]uint64{0: 50, 100: 50, 150: 30, 200: 10, 300: 110, 1100: 910, 5000: 910} {
		if ns, known := growing.Apart(fitted, at); ns != want+30 || !known {
			t.Errorf("at %d: %d, %t", at, ns, known)
		}
	}
	for _, c := range []struct {
		a, b  *Clock
		ns    uint64
		known bool
	}{
		{reference, reference, 0, true}, {reference, fitted, 30, true}, {fitted, reference, 30, true}, {unknown, unknown, 0, true}, {nil, nil, 0, true},
		{reference, unknown, 0, false}, {nil, reference, 0, false}, {fitted, far, 0, false},
	} {
		if ns, known := c.a.Apart(c.b, 1000); ns != c.ns || known != c.known {
			t.Errorf("%+v and %+v: %d, %t", c.a, c.b, ns, known)
		}
	}
}
