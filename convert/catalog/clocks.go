package catalog

import (
	"math"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Clocks are the readings of the host's clocks in a log.
type Clocks struct {
	First tracelog.Clock // the first reading, zero without one

	// How far CLOCK_REALTIME was ahead of CLOCK_MONOTONIC, ns.
	Known       bool
	Ahead       int64 // in the first reading
	least, most int64
	Booted      int64 // how far it was ahead of CLOCK_BOOTTIME: when the host started
}

// take takes a reading. It returns its time.
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

// Moved is by how much the wall clock was set or slewed between the readings, ns.
func (k *Clocks) Moved() uint64 { return uint64(k.most - k.least) }
