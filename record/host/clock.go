// Package host describes this machine: the times of its clocks, its kind of processor and the
// release of its kernel.
package host

import "golang.org/x/sys/unix"

// Monotonic is the time of the host's CLOCK_MONOTONIC in ns, the clock of every time in a log.
func Monotonic() uint64 { return read(unix.CLOCK_MONOTONIC) - uint64(own().Monotonic) }

// Clocks is one reading of several clocks, in ns. Monotonic is the middle of two readings, one
// before and one after the others.
type Clocks struct {
	Monotonic, Realtime, Boottime uint64
	Spread                        uint64 // between the two readings
	MaxError                      uint64 // how far Realtime is from UTC at most; 0 when not known
}

// readings is how often the clocks are read for one reading: the one with the least spread counts,
// which no interrupt came into.
const readings = 5

// ReadClocks reads the clocks.
func ReadClocks() Clocks {
	best := readOnce()
	for range readings - 1 {
		if c := readOnce(); c.Spread < best.Spread {
			best = c
		}
	}
	best.MaxError = maxError()
	return best
}

func readOnce() Clocks {
	before := Monotonic()
	c := Clocks{Realtime: read(unix.CLOCK_REALTIME), Boottime: read(unix.CLOCK_BOOTTIME) - uint64(own().Boottime)}
	c.Spread = max(Monotonic()-before, 1)
	c.Monotonic = before + c.Spread/2
	return c
}

// maxError is what the kernel knows of the error of CLOCK_REALTIME, in ns: the bound that the host's
// NTP or PTP daemon gave it, and its growth since. 0 is not known: nobody synchronizes the clock, or the call is not
// allowed here.
func maxError() uint64 {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return 0
	}
	return errorOf(&t)
}

// unsynchronized is STA_UNSYNC of <linux/timex.h>.
const unsynchronized = 0x40

func errorOf(t *unix.Timex) uint64 {
	if t.Status&unsynchronized != 0 || t.Maxerror < 0 {
		return 0
	}
	return max(uint64(t.Maxerror), 1) * 1000
}

func read(clock int32) uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0 // "not known"; every Linux has these clocks
	}
	return uint64(t.Nano())
}

// Time is the host's CLOCK_MONOTONIC at a time that this process, or a child of it, read from its own.
func Time(at uint64) uint64 { return at - uint64(own().Monotonic) }
