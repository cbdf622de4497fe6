package diff

import (
	"fmt"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/record/figures"
)

// LeastRuns is the number of runs of each side from which on times are judged. With fewer, a GPU
// that runs at one of two clock rates would often show one of them in all runs of BASE, and the
// other in all of NEW.
const LeastRuns = 4

// Noise that the values of runs have at least: percentiles of stats are within 0.8 %, and GPUs
// measure time in steps.
const (
	leastShare = 0.005
	leastTime  = 10 // ns
)

// A Rule says what a difference is.
type Rule struct {
	Rate      float64 // of false discoveries
	Untested  bool    // the size of a difference decides, not whether it is significant
	MinChange float64 // the smallest change that counts where figures vary, a part of BASE's figure
}

// A compared is a figure of BASE and of NEW.
type compared struct {
	Base, New float64 // means over the runs, NaN where the figure is not known
	Exact     bool    // it is the same in each run of a side, and is no time: a difference is no chance
	P         float64 // probability of so large a difference by chance, NaN of one that was not tested
	Q         float64 // P, corrected for the number of tests
	Few       bool    // it was not tested because there are too few runs
	Spared    bool    // it was not tested because another figure of its row is
	Differs   bool
}

// known reports whether both sides have the figure.
func (c *compared) known() bool { return !math.IsNaN(c.Base) && !math.IsNaN(c.New) }

// change is the difference as a part of BASE's figure.
func (c *compared) change() float64 {
	if c.Base == c.New {
		return 0
	}
	return (c.New - c.Base) / c.Base
}

// compare compares the values of runs. exact figures are counts and bytes.
func compare(base, new []float64, exact, times bool) *compared {
	base, new = known(base), known(new)
	c := &compared{Base: meanOf(base), New: meanOf(new), P: math.NaN(), Q: math.NaN()}
	switch {
	case !c.known():
	case exact && constant(base) && constant(new), c.Base == 0 && c.New == 0:
		c.Exact = true
		c.Differs = base[0] != new[0]
	case min(len(base), len(new)) < LeastRuns:
		c.Few = true
	default:
		noise := leastShare * math.Abs(c.Base+c.New) / 2
		if times {
			noise = max(noise, leastTime)
		}
		c.P = chance(base, new, noise)
	}
	return c
}

// known leaves out what is not known.
func known(values []float64) []float64 { return slices.DeleteFunc(slices.Clone(values), math.IsNaN) }

// constant reports whether all values are the same.
func constant(values []float64) bool {
	for _, v := range values {
		if v != values[0] {
			return false
		}
	}
	return true
}

// settle finds the differences among all figures that were compared.
func (r *Rule) settle(all []*compared) {
	r.adjust(all)
	for _, c := range all {
		if !c.Exact && !c.Spared {
			c.Differs = r.significant(c) && math.Abs(c.change()) >= r.MinChange
		}
	}
}

// adjust corrects the probabilities for their number.
func (r *Rule) adjust(all []*compared) {
	var tested []*compared
	var p []float64
	for _, c := range all {
		if !math.IsNaN(c.P) {
			tested, p = append(tested, c), append(p, c.P)
		}
	}
	for i, q := range adjust(p) {
		tested[i].Q = q
	}
}

// significant reports whether a difference is more than chance.
func (r *Rule) significant(c *compared) bool {
	return c.known() && c.Base != c.New && (c.Exact || r.Untested || c.Q <= r.Rate)
}

// tooFew says why times are not judged with numbers of runs, "" if they are.
func (r *Rule) tooFew(base, new int) string {
	if r.Untested || min(base, new) >= LeastRuns {
		return ""
	}
	return fmt.Sprintf("times are not judged: that takes %d runs on each side, BASE has %s and NEW %s", LeastRuns, figures.Group(base), figures.Group(new))
}
