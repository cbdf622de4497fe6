package diff

import (
	"cmp"
	"math"
	"slices"
)

// LeastRuns is the number of runs of each side from which on times are judged. With fewer, a GPU
// that runs at one of two clock rates would often show one of them in all runs of BASE, and the
// other in all of NEW.
const LeastRuns = 4

// Noise that the values of runs have at least: percentiles of stats are within 0.8 %, and GPUs
// measure time in steps.
const (
	leastShare  = 0.005
	leastTime   = 10    // ns
	leastMedian = 0.016 // of a median within a run: two equal ones may be twice the error of a percentile apart
)

// A Rule says what a difference is.
type Rule struct {
	Rate      float64 // of false discoveries
	Untested  bool    // the size of a difference decides, not whether it is significant
	Within    bool    // a difference beyond the noise within the runs is one, whether it is significant or not
	MinChange float64 // the smallest change that counts where figures vary, a part of BASE's figure
}

// tests reports whether differences between runs are tested.
func (r *Rule) tests() bool { return !r.Untested && !r.Within }

// runValues are the values of a figure, NaN for a run where it is not known.
type runValues struct {
	base, new []float64
	spreads   [2][]float64 // half of the intervals of medians within the runs of BASE and of NEW, as parts of the medians; nil if nothing is known
	exact     bool         // counts and bytes
	times     bool
	medians   bool
}

// Whether a difference is beyond the noise within the runs.
const (
	withinNoise = "within"
	beyondNoise = "beyond"
)

// A compared is a figure of BASE and of NEW.
type compared struct {
	Base, New float64    // means over the runs, NaN where the figure is not known
	Spread    [2]float64 // how much the figure varies in BASE and in NEW, as a part of it: the standard deviation over the runs; of one run half of the interval of its median; NaN if not known
	Noise     string     // withinNoise, beyondNoise, "" if the noise within the runs is not known
	Exact     bool       // it is the same in each run of a side, and is no time: a difference is no chance
	P         float64    // probability of so large a difference by chance, NaN of one that was not tested
	Q         float64    // P, corrected for the number of tests
	Few       bool       // it was not tested because there are too few runs
	Spared    bool       // it was not tested because another figure of its row is
	Drifts    bool       // it was tested without the trend from run to run
	Doubtful  bool       // it looks like one of two levels
	Differs   bool

	values [2][]float64 // those that are known
	trend  trend
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

// compare compares the values of runs in an order, nil for one that is not known.
func compare(v runValues, o *order) *compared {
	base, new := known(v.base), known(v.new)
	c := &compared{Base: meanOf(base), New: meanOf(new), P: math.NaN(), Q: math.NaN(), values: [2][]float64{base, new}, trend: noTrend}
	c.Spread = [2]float64{spreadOf(base, v.spreads[0]), spreadOf(new, v.spreads[1])}
	if !c.known() {
		return c
	}
	if v.exact && constant(base) && constant(new) || c.Base == 0 && c.New == 0 {
		c.Exact = true
		c.Differs = base[0] != new[0]
		return c
	}
	least := leastShare * math.Abs(c.Base+c.New) / 2
	if v.times {
		least = max(least, leastTime)
	}
	c.Noise = noiseOf(c, &v, least)
	if min(len(base), len(new)) < LeastRuns {
		c.Few = true
		return c
	}
	c.P = chance(base, new, least)
	if o != nil {
		c.trend = trendOf([2]series{places(o.places[0], v.base), places(o.places[1], v.new)}, least)
	}
	return c
}

// Limits of a trend.
const (
	likelyTrend = 0.2  // probability of so steep a trend by chance at which a figure is taken to drift: where in doubt, it does
	commonTrend = 0.25 // part of the figures that drift in one direction from which on all do; by chance it is a tenth
)

// drift reports whether the figures of a comparison drift together.
func drift(all []*compared) bool {
	var tested, up, down float64
	for _, c := range all {
		if math.IsNaN(c.P) {
			continue
		}
		switch tested++; {
		case c.trend.chance > likelyTrend:
		case c.trend.slope > 0:
			up++
		default:
			down++
		}
	}
	return tested > 0 && max(up, down) >= commonTrend*tested
}

// straighten gives figures that drift the probability of what differs beside the trend: it is the larger one where the sides were recorded one after the
// other, and the trend leads from one to the other. Where they were recorded by turns, it may be smaller, and a trend of one figure alone is chance.
func straighten(all []*compared, o *order, common bool) {
	for _, c := range all {
		switch {
		case math.IsNaN(c.P) || o == nil:
		case o.apart && (common || c.trend.chance <= likelyTrend):
			c.Drifts, c.P = true, max(c.P, c.trend.rest)
		case common && !o.apart:
			c.Drifts, c.P = true, c.trend.rest
		}
	}
}

// places puts the known values of runs beside their places in time.
func places(order, values []float64) (s series) {
	for i, v := range values {
		if !math.IsNaN(v) {
			s.at, s.values = append(s.at, order[i]), append(s.values, v)
		}
	}
	return s
}

// spreadOf returns how much a figure varies.
func spreadOf(values, within []float64) float64 {
	if len(values) > 1 {
		mean, variance := moments(values)
		if mean == 0 {
			return math.NaN()
		}
		return math.Sqrt(variance) / math.Abs(mean)
	}
	return meanOf(known(within))
}

// noiseOf reports whether a difference is beyond the noise within the runs.
func noiseOf(c *compared, v *runValues, least float64) string {
	noise := [2]float64{meanOf(known(v.spreads[0])) * math.Abs(c.Base), meanOf(known(v.spreads[1])) * math.Abs(c.New)}
	if v.medians {
		least = max(least, leastMedian*math.Abs(c.Base+c.New)/2)
	}
	for side, values := range c.values {
		if len(values) > 1 {
			noise[side] = most(noise[side], 2*c.Spread[side]*math.Abs(meanOf(values)))
		}
		noise[side] = max(noise[side], least)
	}
	switch all := math.Hypot(noise[0], noise[1]); {
	case math.IsNaN(all):
		return ""
	case math.Abs(c.New-c.Base) > all:
		return beyondNoise
	}
	return withinNoise
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

// Limits of two levels.
const (
	leastOfLevel = 2    // values on a level
	levelsApart  = 2.5  // how much farther levels are apart than the values of one
	falseLevels  = 0.02 // probability from which on a difference may be of two levels
)

// twoLevels returns how far the two levels of a figure are apart, as a part of the lower one; 0 where its values do not lie on two levels. mixed reports
// whether a side has both.
func (c *compared) twoLevels() (apart float64, mixed bool) {
	type value struct {
		v    float64
		side int
	}
	var all []value
	for side, values := range c.values {
		for _, v := range values {
			all = append(all, value{v, side})
		}
	}
	slices.SortFunc(all, func(a, b value) int { return cmp.Compare(a.v, b.v) })
	at := 0 // the first value of the upper level
	for i := leastOfLevel; i <= len(all)-leastOfLevel; i++ {
		if at == 0 || all[i].v-all[i-1].v > all[at].v-all[at-1].v {
			at = i
		}
	}
	if at == 0 {
		return 0, false
	}
	gap := all[at].v - all[at-1].v
	if within := max(all[at-1].v-all[0].v, all[len(all)-1].v-all[at].v); gap <= levelsApart*within || all[0].v <= 0 || gap < leastShare*all[0].v {
		return 0, false
	}
	lower := all[0].side
	for _, v := range all[:at] {
		mixed = mixed || v.side != lower
	}
	for _, v := range all[at:] {
		mixed = mixed || v.side == lower
	}
	return gap / all[0].v, mixed
}

// levels are the figures that take one of two values by chance, such as the time of a kernel that was chosen by measuring.
type levels struct {
	count int
	apart float64 // the largest distance of two levels
}

// find looks for figures whose values lie on two levels, both in one side.
func (l *levels) find(all []*compared) {
	for _, c := range all {
		if math.IsNaN(c.P) {
			continue
		}
		if apart, mixed := c.twoLevels(); mixed {
			l.count++
			l.apart = max(l.apart, apart)
		}
	}
}

// doubt raises the probability of figures that may be of that kind: one whose BASE lies on one level and whose NEW lies on the other, where so many others
// lie on both in one side that one of them would be expected to look like it.
func (l *levels) doubt(all []*compared) {
	for _, c := range all {
		if math.IsNaN(c.P) || l.count == 0 {
			continue
		}
		if apart, mixed := c.twoLevels(); mixed || apart == 0 || apart > 2*l.apart {
			continue
		}
		chance := float64(l.count+1) * math.Exp2(1-float64(len(c.values[0])+len(c.values[1])))
		if chance > falseLevels && chance > c.P {
			c.Doubtful, c.P = true, min(chance, 1)
		}
	}
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

// significant reports whether a difference is more than chance, or beyond the noise within the runs where that decides.
func (r *Rule) significant(c *compared) bool {
	switch {
	case !c.known() || c.Base == c.New:
		return false
	case c.Exact || r.Untested:
		return true
	case r.Within:
		return c.Noise == beyondNoise
	}
	return c.Q <= r.Rate
}
