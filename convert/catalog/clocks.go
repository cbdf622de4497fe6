package catalog

import (
	"math"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Clocks are the readings of the host's clocks in a log.
type Clocks struct {
	First tracelog.Clock // the first reading; zero when there is none

	// Distance from CLOCK_MONOTONIC to CLOCK_REALTIME, ns.
	Known       bool
	Ahead       int64 // in the first reading
	least, most int64
	Booted      int64 // distance from CLOCK_BOOTTIME to CLOCK_REALTIME: when the host started
}

// take adds a reading. It returns the reading's time.
func (k *Clocks) take(b *tracelog.Block, i int) uint64 {
	var c tracelog.Clock
	c.Read(b, i)
	if k.First == (tracelog.Clock{}) {
		k.First = c
	}
	k.add(&c)
	return c.Monotonic
}

func (k *Clocks) add(c *tracelog.Clock) {
	if c.Monotonic == 0 || c.Realtime == 0 {
		return
	}
	ahead := int64(c.Realtime - c.Monotonic)
	if !k.Known {
		k.Known, k.Ahead, k.least, k.most = true, ahead, math.MaxInt64, math.MinInt64
		k.Booted = int64(c.Realtime - c.Boottime)
	}
	k.least, k.most = min(k.least, ahead), max(k.most, ahead)
}

// Moved is the largest change of the wall clock between the readings, ns.
func (k *Clocks) Moved() uint64 { return uint64(k.most - k.least) }
