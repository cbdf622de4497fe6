package convert

import (
	"math"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A clockRange has how far CLOCK_REALTIME was ahead of CLOCK_MONOTONIC in the readings
// of a log, in ns.
type clockRange struct {
	some        bool
	first       int64
	least, most int64
	started     int64 // how far it was ahead of CLOCK_BOOTTIME: when the host started
}

func (r *clockRange) add(c *tracelog.Clock) {
	if c.Monotonic == 0 || c.Realtime == 0 {
		return
	}
	ahead := int64(c.Realtime - c.Monotonic)
	if !r.some {
		*r = clockRange{some: true, first: ahead, least: math.MaxInt64, most: math.MinInt64}
		r.started = int64(c.Realtime - c.Boottime)
	}
	r.least, r.most = min(r.least, ahead), max(r.most, ahead)
}

// spread is by how much the readings differ: the wall clock was set or slewed meanwhile.
func (r *clockRange) spread() uint64 {
	if !r.some {
		return 0
	}
	return uint64(r.most - r.least)
}
