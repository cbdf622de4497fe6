package diff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// noise draws the factor that a run puts on a time.
func noise(r *rand.Rand) float64 { return 1 + 0.02*r.NormFloat64() }

// simulated is a run of a program with 30 kernels, 20 functions and a GPU, whose times have
// noise. longer is a factor on the third kernel.
func simulated(t *testing.T, r *rand.Rand, longer float64) *Run {
	var b strings.Builder
	row := func(name string, i int, factor float64) {
		d := math.Pow(10, 3+float64(i%5)/2) * factor
		fmt.Fprintf(&b, `{"name": "%s%d", "count": 1000, "total_ns": %.0f, "median_ns": %.0f, "library": "x", "failed": 0},`, name, i, 1000*d*noise(r), d*noise(r))
	}
	b.WriteString(`{"version": 1, "logs": [{"name": "l", "complete": true, "gpu_source": "cupti"}], "kernels": [`)
	for i := range 30 {
		factor := 1.0
		if i == 2 {
			factor = longer
		}
		row("k", i, factor)
	}
	b.WriteString(`{}], "calls": [`)
	for i := range 20 {
		row("f", i, 1)
	}
	fmt.Fprintf(&b, `{}], "devices": [{"name": "g", "gpu": 0, "busy_ns": %.0f, "idle_ns": %.0f, "kernels": 30000}]}`, 1e8*noise(r), 1e9*noise(r))
	return readRun(t, "run", b.String())
}

// tries compares runs of both sides again and again. It returns in how many tries the longer
// kernel was found, and in how many anything else was.
func tries(t *testing.T, sides [2]int, count int, longer float64) (found, wrong int) {
	r := rand.New(rand.NewPCG(3, 4))
	for range count {
		var runs [2][]*Run
		for side, size := range sides {
			for range size {
				factor := 1.0
				if side == 1 {
					factor = longer
				}
				runs[side] = append(runs[side], simulated(t, r, factor))
			}
		}
		others := 0
		for _, w := range words(Compare(runs[0], runs[1], rule)) {
			if w == "kernels k2: slower" {
				found++
			} else {
				others++
			}
		}
		wrong += min(others, 1)
	}
	return found, wrong
}

// Runs of the same program differ in nothing in 99 of 100 tries. TestNull has other noises and many more tries.
func TestNullRuns(t *testing.T) {
	t.Parallel()
	const count = 100
	if found, wrong := tries(t, [2]int{4, 5}, count, 1); found+wrong > count/100 {
		t.Errorf("%d of %d tries differ", found+wrong, count)
	}
}

// TestPower: a kernel that is 10 % longer is found among 50 other rows.
func TestPower(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ runs, least int }{{5, 10}, {8, 20}} {
		const count = 20
		if found, wrong := tries(t, [2]int{c.runs, c.runs}, count, 1.1); found < c.least || wrong > 0 {
			t.Errorf("%d runs: found in %d of %d tries, something else in %d", c.runs, found, count, wrong)
		}
	}
}
