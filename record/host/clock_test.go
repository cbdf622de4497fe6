package host

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The reading lies between two others, and the wall clock is the one of package time.
func TestReadClocks(t *testing.T) {
	before := time.Now()
	from := Monotonic()
	c := ReadClocks()
	to := Monotonic()
	after := time.Now()
	if c.Monotonic < from || c.Monotonic > to || from == 0 {
		t.Errorf("%d is not between %d and %d", c.Monotonic, from, to)
	}
	if wall := time.Unix(0, int64(c.Realtime)); wall.Before(before.Round(0)) || wall.After(after.Round(0)) {
		t.Errorf("%v is not between %v and %v", wall, before, after)
	}
	if c.Spread == 0 {
		t.Error("the reading took no time")
	}
	if c.Boottime < c.Monotonic {
		t.Errorf("%d ns since the machine was started, %d without its sleep", c.Boottime, c.Monotonic)
	}
}

// A clock that nobody synchronizes has an error that is not known, whatever the kernel's number is.
func TestErrorOf(t *testing.T) {
	for _, c := range []struct {
		state unix.Timex
		want  uint64
	}{
		{unix.Timex{Maxerror: 1250}, 1_250_000},
		{unix.Timex{Maxerror: 0}, 1000}, // finer than the kernel counts
		{unix.Timex{Maxerror: 16_000_000, Status: unsynchronized}, 0},
		{unix.Timex{Maxerror: 40, Status: unsynchronized | 1}, 0},
		{unix.Timex{Maxerror: 40, Status: 1}, 40_000},
		{unix.Timex{Maxerror: -1}, 0},
	} {
		if got := errorOf(&c.state); got != c.want {
			t.Errorf("%+v: %d ns, want %d", c.state, got, c.want)
		}
	}
}

func TestBootID(t *testing.T) {
	if id := BootID(); len(id) != 36 || id != BootID() {
		t.Errorf("the boot ID is %q", id)
	}
}
