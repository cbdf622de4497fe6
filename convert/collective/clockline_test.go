package collective

import (
	"math"
	"testing"
)

// A corridor demands values from low to high at x 0 and 10, and has ends on a line.
func corridor(low, high, ends float64) *pass {
	p := new(pass)
	for _, x := range []float64{0, 10} {
		p.above, p.below = append(p.above, point{x, low}), append(p.below, point{x, high})
	}
	for x := range 11 {
		p.ends = append(p.ends, point{float64(x), ends})
	}
	return p
}

// The estimate is where the ends agree, if that is possible, and the error leads to the farthest line that is.
func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		low, high, ends float64
		from, to        float64
		estimate, error float64
	}{
		{"ends near the floor", 0, 10, 1, 0, 10, 1, 9},
		{"ends near the ceiling", 0, 10, 8, 0, 10, 8, 8},
		{"ends where no line is", 0, 10, 30, 0, 10, 5, 7.5}, // the middle of four lines, not of all
		{"a longer time", 0, 10, 5, 0, 20, 5, 15},           // a line from 0 to 10 is at 20 then
		{"an earlier time", 0, 10, 5, -10, 10, 5, 15},
		{"hardly a line", 4, 4.0001, 4, 0, 10, 4, 1e-4},
	} {
		r, ok := corridor(c.low, c.high, c.ends).region()
		if !ok {
			t.Errorf("%s: there is no line", c.name)
			continue
		}
		f := r.fit(c.from, c.to)
		if got := f.at(5); math.Abs(got-c.estimate) > 1e-3 || math.Abs(f.error()-c.error) > 1e-3 {
			t.Errorf("%s: the line is at %g, error %g; want %g, %g", c.name, got, f.error(), c.estimate, c.error)
		}
	}
	if _, ok := corridor(5, 4, 4).region(); ok {
		t.Error("a line is below and above")
	}
}
