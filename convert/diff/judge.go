package diff

import (
	"cmp"
	"math"
	"slices"
)

// LeastRuns is the number of runs a side from which times are judged. With fewer, a GPU that runs at one of
// two clock rates would often show one of them in all runs of BASE, and the other in all of NEW.
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
	GateRate  float64 // the same among the figures of conditions
	Untested  bool    // the size of a difference decides, not whether it is significant
	MinChange float64 // the smallest change that counts where figures vary, a part of BASE's figure
}

// runValues are the values of a figure, NaN for a run where it is not known.
type runValues struct {
	base, new []float64
	exact     bool // counts and bytes
	times     bool
}

// A compared is a figure of BASE and of NEW.
type compared struct {
	Base, New float64    // means over the runs, NaN where the figure is not known
	Spread    [2]float64 // standard deviation over the runs of BASE and of NEW, a part of the mean; NaN of one run
	Exact     bool       // it is the same in each run of a side, and is no time: a difference is no chance
	P         float64    // probability of so large a difference by chance, NaN of one that was not tested
	Q         float64    // P, corrected for the number of tests
	Few       bool       // it was not tested because there are too few runs
	Spared    bool       // it was not tested because another figure of its row is
	Differs   bool

	values runValues
	least  float64 // smallest standard deviation
	rest   float64 // the difference beside the drift of sides that were recorded one after the other
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

// compare compares the values of runs.
func compare(v runValues) *compared {
	base, new := known(v.base), known(v.new)
	c := &compared{Base: meanOf(base), New: meanOf(new), P: math.NaN(), Q: math.NaN(), values: v}
	c.Spread = [2]float64{spreadOf(base), spreadOf(new)}
	c.rest = c.New - c.Base
	if !c.known() {
		return c
	}
	if v.exact && constant(base) && constant(new) || c.Base == 0 && c.New == 0 {
		c.Exact = true
		c.Differs = base[0] != new[0]
		return c
	}
	c.least = leastShare * math.Abs(c.Base+c.New) / 2
	if v.times {
		c.least = max(c.least, leastTime)
	}
	if min(len(base), len(new)) < LeastRuns {
		c.Few = true
		return c
	}
	c.P = chance(base, new, c.least)
	return c
}

// tested are the figures that were tested.
func tested(all []*compared) []*compared {
	return slices.DeleteFunc(slices.Clone(all), func(c *compared) bool { return math.IsNaN(c.P) })
}

// driftOf returns the drift of the machine from run to run, a part of each figure: the median over the figures of
// the slope within the sides. It is 0 for sides that were recorded by turns, which meet a drift alike.
func driftOf(all []*compared, o *order) float64 {
	if o == nil {
		return 0
	}
	var slopes []float64
	for _, c := range tested(all) {
		var sxx, sxy float64
		for side, values := range [2][]float64{c.values.base, c.values.new} {
			middle, mean := meanOf(o.places[side]), [2]float64{c.Base, c.New}[side]
			for i, v := range values {
				if x := o.places[side][i] - middle; mean != 0 && !math.IsNaN(v) {
					sxx, sxy = sxx+x*x, sxy+x*(v/mean-1)
				}
			}
		}
		if sxx > 0 {
			slopes = append(slopes, sxy/sxx)
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	slices.Sort(slopes)
	return slopes[len(slopes)/2]
}

// straighten finds what of a difference the drift does not explain.
func straighten(all []*compared, o *order, drift float64) {
	if drift == 0 {
		return
	}
	for _, c := range tested(all) {
		var sides [2][]float64
		for side, values := range [2][]float64{c.values.base, c.values.new} {
			for i, v := range values {
				sides[side] = append(sides[side], v*math.Exp(-drift*o.places[side][i]))
			}
			sides[side] = known(sides[side])
		}
		c.rest = meanOf(sides[1]) - meanOf(sides[0])
	}
}

// spreadOf returns the standard deviation as a part of the mean, NaN of one value.
func spreadOf(values []float64) float64 {
	mean, variance := moments(values)
	if len(values) < 2 || mean == 0 {
		return math.NaN()
	}
	return math.Sqrt(variance) / math.Abs(mean)
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
	adjust(all)
	for _, c := range all {
		if !c.Exact && !c.Spared {
			least := r.MinChange * math.Abs(c.Base)
			c.Differs = r.significant(c, r.Rate) && math.Abs(c.New-c.Base) >= least &&
				(r.Untested || math.Abs(c.rest) >= least && c.rest*(c.New-c.Base) > 0)
		}
	}
}

// significant reports whether a difference is more than chance.
func (r *Rule) significant(c *compared, rate float64) bool {
	return c.known() && c.Base != c.New && (c.Exact || r.Untested || c.Q <= rate)
}

// adjust corrects the probabilities of the figures that were tested for their number, by Benjamini and Hochberg:
// each becomes the smallest rate of false discoveries at which the figure is one. Where nothing differs, there is
// a discovery with the probability of that rate.
func adjust(all []*compared) {
	all = tested(all)
	slices.SortStableFunc(all, func(a, b *compared) int { return cmp.Compare(a.P, b.P) })
	least := 1.0
	for i := len(all) - 1; i >= 0; i-- {
		least = min(least, all[i].P*float64(len(all))/float64(i+1))
		all[i].Q = least
	}
}

// surely is the probability at which the smallest change that can be seen is seen.
const surely = 0.9

// smallest returns the smallest change of a figure, a part of BASE's, that its test at a rate would see beside the
// drift.
func (c *compared) smallest(rate float64) float64 {
	a, b := describe(known(c.values.base), c.least), describe(known(c.values.new), c.least)
	student, freedom := pooled(a, b)
	welch, fewer := apart(a, b)
	seen := max(student*(quantile(rate, freedom)+quantile(1-surely, freedom)),
		welch*(quantile(rate, fewer)+quantile(1-surely, fewer)))
	return (seen + math.Abs(c.New-c.Base-c.rest)) / math.Abs(c.Base)
}

// quantile returns the value that Student's distribution exceeds with a probability below a half, to a part in 10⁹.
func quantile(p, freedom float64) float64 {
	low, high := 0.0, 1.0
	for tails(high, freedom)/2 > p && high < 1e9 {
		high *= 2
	}
	for range 30 {
		if middle := (low + high) / 2; tails(middle, freedom)/2 > p {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
