package diff

import (
	"math"
	"testing"
)

// Student's distribution has closed forms for 1, 2 and 4 degrees of freedom.
func TestTails(t *testing.T) {
	t.Parallel()
	for _, x := range []float64{0.001, 0.1, 0.5, 1, 2, 3.7, 10, 100, 1e4} {
		s := math.Sqrt(4 + x*x)
		for freedom, want := range map[float64]float64{
			1: 1 - 2/math.Pi*math.Atan(x),
			2: 1 - x/math.Sqrt(2+x*x),
			4: 1 - 1.5*x/s*(1-x*x/(3*s*s)),
		} {
			if got := tails(x, freedom); math.Abs(got-want) > 1e-12+1e-9*want {
				t.Errorf("t %v, freedom %v: %v, want %v", x, freedom, got, want)
			}
		}
	}
	for x, want := range map[float64]float64{1.959964: 0.05, 2.575829: 0.01} { // the normal distribution
		if got := tails(x, 1e6); math.Abs(got-want) > 1e-5 {
			t.Errorf("t %v, freedom 1e6: %v, want %v", x, got, want)
		}
	}
}

// Both were integrated numerically: Welch's t is -2.85295 with 27.8873 degrees of freedom.
func TestChance(t *testing.T) {
	t.Parallel()
	a := []float64{27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4}
	b := []float64{27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.4}
	if got := chance(a, b, 0); math.Abs(got-0.00807193817219) > 1e-12 { // Student's is smaller
		t.Errorf("p %v", got)
	}
	if p, q := chance(a, b, 0), chance(b, a, 0); p != q {
		t.Errorf("%v and %v, by the order of samples", p, q)
	}
	close, wide := []float64{1, 1.001, 0.999}, []float64{2, 3, 1, 4, 2, 5, 3, 0, 2, 3}
	x, y := describe(close, 0), describe(wide, 0)
	if w, s := welch(y.mean-x.mean, x, y), student(y.mean-x.mean, x, y); w >= s || chance(close, wide, 0) != s {
		t.Errorf("Welch %v, Student %v, %v", w, s, chance(close, wide, 0))
	}
	same, other := []float64{5, 5, 5, 5}, []float64{6, 6, 6, 6}
	for _, c := range []struct {
		a, b        []float64
		least, want float64
	}{{same, same, 0, 1}, {same, other, 0, 0}, {same, same, 1, 1}, {same, other, 0.5, separated(4, 4)}, {same, other, 2, tails(1/math.Sqrt(2), 6)}} {
		if got := chance(c.a, c.b, c.least); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v, %v, %v: %v, want %v", c.a, c.b, c.least, got, c.want)
		}
	}
}

func TestAdjust(t *testing.T) {
	t.Parallel()
	want := []float64{0.025, 0.9, 0.05, 0.05, 0.025, math.NaN()}
	for i, c := range adjusted([]float64{0.01, 0.9, 0.04, 0.03, 0.005, math.NaN()}) {
		if math.Abs(c.Q-want[i]) > 1e-12 {
			t.Errorf("%d: %v, want %v", i, c.Q, want[i])
		}
	}
}

// adjusted are figures of these probabilities, corrected for their number.
func adjusted(p []float64) (all []*compared) {
	for _, p := range p {
		all = append(all, &compared{P: p, Q: math.NaN()})
	}
	adjust(all)
	return all
}
