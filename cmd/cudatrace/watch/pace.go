package watch

import (
	"math"
	"slices"
	"time"
)

// A pace says how often a job is recorded, so that recordings cost no more than a share of the time.
//
// The intervals are Every times powers of two: wherever a job's processes run, its windows are at the same moments, or
// at some of them.
type pace struct {
	budget        float64       // largest share of the time
	every, length time.Duration // shortest interval, and the time of a window
	level         int           // the interval is every << level
	took          []float64     // s that the latest windows took, with starting and stopping
	lost          []float64     // s that the latest windows whose cost is known took from the job
}

const (
	keptCosts = 9  // whose median counts: a checkpoint in one window is no cost
	mostLevel = 16 // every minute becomes every 45 days
)

// interval is the time from one window to the next.
func (p *pace) interval() time.Duration { return p.every << p.level }

// whole is the time of a window with its start and stop, in s: it can cost no more. A recorder that stood still once is
// the median's to leave out.
func (p *pace) whole() float64 {
	if len(p.took) == 0 {
		return p.length.Seconds()
	}
	return max(p.length.Seconds(), median(p.took))
}

// lasted takes the time that a window has taken.
func (p *pace) lasted(d time.Duration) { p.took = latest(append(p.took, d.Seconds())) }

// latest are those of the last windows.
func latest(list []float64) []float64 { return list[max(len(list)-keptCosts, 0):] }

// known reports whether the cost of windows is known: where the steps differ, what they say of windows does, too.
func (p *pace) known() bool { return len(p.lost) > 1 && p.spread() <= p.whole() }

// spread is the standard error of the median of what windows have cost, in s.
func (p *pace) spread() float64 {
	middle, apart := median(p.lost), make([]float64, len(p.lost))
	for i, lost := range p.lost {
		apart[i] = math.Abs(lost - middle)
	}
	return 1.25 * 1.48 * median(apart) / math.Sqrt(float64(len(p.lost))) // of a normal distribution
}

// window is what a window may take from the job, in s. While that is not known it is the whole window.
func (p *pace) window() float64 {
	if !p.known() {
		return p.whole()
	}
	return max(median(p.lost), 0) + p.spread()
}

// cost is the share of the time that recording costs, and by how much that may be wrong; NaN if it is not known.
func (p *pace) cost() (share, spread float64) {
	if !p.known() {
		return math.NaN(), math.NaN()
	}
	interval := p.interval().Seconds()
	return max(median(p.lost), 0) / interval, p.spread() / interval
}

// measured takes what a window has cost, in s.
func (p *pace) measured(lost float64) { p.lost = latest(append(p.lost, lost)) }

// adapt sets the interval: at once to a longer one that the budget asks for, by one level to a shorter one.
func (p *pace) adapt() {
	level := 0
	for level < mostLevel && p.window() > p.budget*(p.every<<level).Seconds() {
		level++
	}
	p.level = max(level, p.level-1)
}

// next is the first moment of the grid of the interval that is not before a time. offset is the job's place in the
// grid.
func (p *pace) next(from time.Time, offset time.Duration) time.Time {
	since, interval := from.UnixNano()-int64(offset), int64(p.interval())
	n := since / interval
	if since%interval > 0 {
		n++
	}
	return time.Unix(0, n*interval+int64(offset))
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
