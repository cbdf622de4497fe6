package read

import (
	"math"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Clocks are the readings of the host's clocks in a log.
type Clocks struct {
	First tracelog.Clock // the first reading; zero when there is none

	// Distance from CLOCK_MONOTONIC to CLOCK_REALTIME, ns. CLOCK_REALTIME runs as fast as
	// CLOCK_MONOTONIC: the distance changes only where somebody sets the clock.
	Known       bool
	Ahead       int64 // in the reading with the least error, the first of those
	least, most int64
	Booted      int64 // distance from CLOCK_BOOTTIME to CLOCK_REALTIME in the first reading: when the host started

	leastError uint64 // of the readings; 0 when it is known of none
	unknown    bool   // the error of a reading is not known: the clock was not synchronized
	low, high  int64  // the distance to UTC was in this range at every reading whose error is known
}

// learn reads a row, a reading of the clocks. It returns the reading's time.
func (k *Clocks) learn(b *tracelog.Block, i int) uint64 {
	var c tracelog.Clock
	c.Read(b, i)
	if k.First == (tracelog.Clock{}) {
		k.First = c
	}
	k.fit(&c)
	return c.Monotonic
}

func (k *Clocks) fit(c *tracelog.Clock) {
	if c.Monotonic == 0 || c.Realtime == 0 {
		return
	}
	ahead := int64(c.Realtime - c.Monotonic)
	if !k.Known {
		k.Known, k.Ahead, k.least, k.most = true, ahead, math.MaxInt64, math.MinInt64
		k.low, k.high = math.MaxInt64, math.MinInt64
		k.Booted = int64(c.Realtime - c.Boottime)
	}
	k.least, k.most = min(k.least, ahead), max(k.most, ahead)
	off := c.MaxError + c.Spread/2
	if c.MaxError == 0 || off > maxOff || off < c.MaxError {
		k.unknown = true
		return
	}
	if k.leastError == 0 || off < k.leastError {
		k.leastError, k.Ahead = off, ahead
	}
	k.low, k.high = min(k.low, ahead-int64(off)), max(k.high, ahead+int64(off))
}

// maxOff is the largest error of a clock, in ns, that says anything: an hour.
const maxOff = 3600e9

// Join adds the readings of another log of the same host.
func (k *Clocks) Join(o *Clocks) {
	switch {
	case !o.Known:
		return
	case !k.Known:
		*k = *o
		return
	}
	if o.leastError != 0 && (k.leastError == 0 || o.leastError < k.leastError) {
		k.leastError, k.Ahead = o.leastError, o.Ahead
	}
	k.unknown = k.unknown || o.unknown
	k.least, k.most = min(k.least, o.least), max(k.most, o.most)
	k.low, k.high = min(k.low, o.low), max(k.high, o.high)
}

// Moved is the largest change of the wall clock between the readings, ns.
func (k *Clocks) Moved() uint64 {
	if !k.Known {
		return 0
	}
	return uint64(k.most - k.least)
}

// Error is how far Ahead is at most from the distance to UTC at any of the readings, in ns. It is known where the
// clock was synchronized at all of them.
func (k *Clocks) Error() (ns uint64, known bool) {
	if !k.Known || k.unknown || k.leastError == 0 {
		return 0, false
	}
	return uint64(max(k.high-k.Ahead, k.Ahead-k.low)), true
}
