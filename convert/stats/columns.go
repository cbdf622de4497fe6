package stats

import (
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
)

// totals are the columns of the count and of the total duration.
type totals struct {
	Count uint64 `key:"count" title:"count" rank:"1"`
	Total uint64 `key:"total_ns" title:"total" rank:"1"`
}

// spread are the columns of how durations differ.
type spread struct {
	Min    *uint64  `key:"min_ns" title:"min" rank:"7"`
	Median *uint64  `key:"median_ns" title:"median" rank:"3"`
	Mean   *float64 `key:"mean_ns" title:"mean" rank:"6"`
	P95    *uint64  `key:"p95_ns" title:"p95" rank:"5"`
	P99    *uint64  `key:"p99_ns" title:"p99" rank:"8"`
	Max    *uint64  `key:"max_ns" title:"max" rank:"4"`
	StdDev *float64 `key:"stddev_ns"`
	medianInterval
}

// medianInterval are the columns of how sure the median is.
type medianInterval struct {
	MedianLow  *uint64 `key:"median_low_ns"`
	MedianHigh *uint64 `key:"median_high_ns"`
}

// spreadOf is the spread of durations, null of none.
func spreadOf(d *sketch.Ordered) (s spread) {
	if d.Count > 0 {
		s = spread{
			new(d.Min), new(d.Percentile(50)), new(d.Mean()), new(d.Percentile(95)), new(d.Percentile(99)), new(d.Max),
			new(d.StdDev()), intervalOf(d),
		}
	}
	return s
}

func intervalOf(d *sketch.Ordered) (i medianInterval) {
	if low, high, known := d.MedianInterval(); known {
		i = medianInterval{&low, &high}
	}
	return i
}

// median is a distribution's median, null of no number.
func median(d *sketch.Distribution) *uint64 {
	if d.Count == 0 {
		return nil
	}
	return new(d.Percentile(50))
}

// workColumns are the columns of pieces of work.
type workColumns struct {
	Kernels uint64 `key:"kernels" title:"kernels" rank:"4"` // pieces of work
	Copies  uint64 `key:"copies" title:"copies" rank:"5"`   // =
	Sets    uint64 `key:"sets" title:"sets" rank:"6"`       // =
	// sum of the times of all work: more than `busy_ns` where work overlaps
	Work uint64 `key:"work_ns"`
}

func (c *workCount) columns() workColumns { return workColumns{c.Kernels, c.Copies, c.Memsets, c.time} }

// busyColumns are the columns of how long something was busy.
type busyColumns struct {
	Busy  *uint64  `key:"busy_ns" title:"busy" rank:"1"`     // time with work under way
	Idle  *uint64  `key:"idle_ns" title:"idle" rank:"2"`     // `span_ns` less `busy_ns`
	Share *float64 `key:"busy_share" title:"share" rank:"2"` // `busy_ns` over `span_ns`
	// from the first work, or the beginning of the steady state where it is behind that, to the last work; both moments
	Span  *uint64 `key:"span_ns"`
	First *uint64 `key:"first_ns" unit:"moment"` // =
	Last  *uint64 `key:"last_ns" unit:"moment"`  // =
}

// madeColumns are the columns of what the GPUs of a process did, in the order of steps.Made.
type madeColumns struct {
	Compute *uint64 `key:"compute_ns"`
	Exposed *uint64 `key:"exposed_ns"`
	Copy    *uint64 `key:"copy_ns"`
	Idle    *uint64 `key:"idle_ns"`
}

func madeOf(made *[4]uint64) madeColumns {
	return madeColumns{&made[0], &made[1], &made[2], &made[3]}
}
