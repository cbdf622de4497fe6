// Package host describes this machine: the times of its clocks, its kind of processor and the
// release of its kernel.
package host

import "golang.org/x/sys/unix"

// Monotonic is the time of the host's CLOCK_MONOTONIC in ns, the clock of every time in a log.
func Monotonic() uint64 { return read(unix.CLOCK_MONOTONIC) - uint64(own().Monotonic) }

// Clocks is one reading of several clocks, in ns. Monotonic is the middle of two readings, one
// before and one after the others.
type Clocks struct{ Monotonic, Realtime, Boottime uint64 }

// ReadClocks reads the clocks once.
func ReadClocks() Clocks {
	before := Monotonic()
	c := Clocks{Realtime: read(unix.CLOCK_REALTIME), Boottime: read(unix.CLOCK_BOOTTIME) - uint64(own().Boottime)}
	c.Monotonic = before + (Monotonic()-before)/2
	return c
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
