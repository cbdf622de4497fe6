package host

import (
	"testing"
	"time"
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
	if c.Boottime < c.Monotonic {
		t.Errorf("%d ns since the machine was started, %d without its sleep", c.Boottime, c.Monotonic)
	}
}
