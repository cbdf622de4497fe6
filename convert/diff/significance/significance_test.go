package significance

import (
	"math"
	"math/rand/v2"
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

// t is -2.85295, with 27.8873 degrees of freedom; the probability was integrated numerically.
func TestWelch(t *testing.T) {
	t.Parallel()
	a := []float64{27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4}
	b := []float64{27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.4}
	if got := Welch(a, b, 0); math.Abs(got-0.00807193817219) > 1e-12 {
		t.Errorf("p %v", got)
	}
	if p, q := Welch(a, b, 0), Welch(b, a, 0); p != q {
		t.Errorf("%v and %v, by the order of samples", p, q)
	}
	same := []float64{5, 5, 5, 5}
	for _, c := range []struct {
		a, b  []float64
		least float64
		want  float64
	}{{same, same, 0, 1}, {same, []float64{6, 6, 6, 6}, 0, 0}, {same, same, 1, 1}} {
		if got := Welch(c.a, c.b, c.least); got != c.want {
			t.Errorf("%v, %v, %v: %v, want %v", c.a, c.b, c.least, got, c.want)
		}
	}
	if got, want := Welch(same, []float64{6, 6, 6, 6}, 0.5), tails(1/math.Sqrt(0.125), 6); math.Abs(got-want) > 1e-12 {
		t.Errorf("least deviation: %v, want %v", got, want)
	}
}

func TestAdjust(t *testing.T) {
	t.Parallel()
	p := []float64{0.01, 0.9, 0.04, 0.03, 0.005}
	want := []float64{0.025, 0.9, 0.05, 0.05, 0.025}
	for i, got := range Adjust(p) {
		if math.Abs(got-want[i]) > 1e-12 {
			t.Errorf("%d: %v, want %v", i, got, want[i])
		}
	}
	if got := Adjust(nil); len(got) != 0 {
		t.Error(got)
	}
}

// Samples of one distribution differ no more often than the probability says, whatever the
// distribution, for 4 values a side.
func TestNull(t *testing.T) {
	t.Parallel()
	for name, draw := range distributions {
		for _, sizes := range [][2]int{{4, 4}, {5, 5}, {4, 10}} {
			r := rand.New(rand.NewPCG(1, 2))
			const tries = 40_000
			low := map[float64]int{0.01: 0, 0.001: 0, 0.0001: 0}
			for range tries {
				p := Welch(sample(r, draw, sizes[0]), sample(r, draw, sizes[1]), 0.005)
				for level := range low {
					if p < level {
						low[level]++
					}
				}
			}
			for level, n := range low {
				mean := level * tries
				if limit := 1.6*mean + 4*math.Sqrt(mean); float64(n) > limit {
					t.Errorf("%s, %v values: %d of %d below %v, want %.0f at most", name, sizes, n, tries, level, limit)
				}
			}
		}
	}
}

// distributions are what run times look like.
var distributions = map[string]func(*rand.Rand) float64{
	"normal":     func(r *rand.Rand) float64 { return 1 + 0.03*r.NormFloat64() },
	"skewed":     func(r *rand.Rand) float64 { return 1 + 0.05*r.ExpFloat64() },
	"log-normal": func(r *rand.Rand) float64 { return math.Exp(0.3 * r.NormFloat64()) },
	"with outliers": func(r *rand.Rand) float64 {
		v := 1 + 0.01*r.NormFloat64()
		if r.IntN(10) == 0 {
			v *= 1.5
		}
		return v
	},
	"in steps": func(r *rand.Rand) float64 { return 1 + 0.01*math.Round(2*r.NormFloat64()) },
}

func sample(r *rand.Rand, draw func(*rand.Rand) float64, n int) (values []float64) {
	for range n {
		values = append(values, draw(r))
	}
	return values
}
