package convert

import (
	"fmt"
	"time"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// sameBoot is by how much the wall clock may have been moved, in ns, between two logs of
// one host that has not been restarted meanwhile.
const sameBoot = 60e9

// align brings the clocks of the logs together and says how the times of the timeline
// relate to the world. Logs of one host have one clock. Clocks of several hosts meet
// through their wall clocks; the host that started first gives the timeline its clock.
func (c *conversion) align() *timeline.Recording {
	reference := c.logs[0]
	for _, l := range c.logs[1:] {
		a, b := &l.catalog.Clocks, &reference.catalog.Clocks
		if a.Known && (!b.Known || a.Ahead < b.Ahead) {
			reference = l
		}
	}
	first := &reference.catalog.Clocks.First
	r := &timeline.Recording{Monotonic: first.Monotonic, Realtime: first.Realtime, Boottime: first.Boottime,
		Start: timeline.Never, Processes: c.processes()}
	for _, l := range c.logs {
		l.alignTo(reference)
		r.Start = min(r.Start, l.catalog.First()+l.shift)
	}
	return r
}

// alignTo says by how much the times of a log are moved.
func (l *log) alignTo(r *log) {
	a, b := &l.catalog.Clocks, &r.catalog.Clocks
	switch {
	case l == r:
	case !a.Known || !b.Known:
		l.aligned = "it has no reading of the clocks: its times are shown as they are"
	case l.host() == r.host() && within(a.Booted, b.Booted, sameBoot):
		l.aligned = fmt.Sprintf("same host as %s: the clock is the same", r.Name)
	default:
		l.shift = uint64(a.Ahead - b.Ahead)
		l.aligned = fmt.Sprintf("moved by %s against %s through the wall clocks of %s and %s: right to what these differ by (about a millisecond with NTP), and they moved by up to %s while recording",
			duration(l.shift), r.Name, l.host(), r.host(), duration(a.Moved()+b.Moved()))
	}
}

func (l *log) host() string { return l.catalog.Meta[tracelog.MetaHost] }

func within(a, b, most int64) bool { return a-b <= most && b-a <= most }

// duration is a number of ns as a time.Duration, which has no room for the largest ones.
func duration(ns uint64) time.Duration { return time.Duration(min(ns, 1<<62)) }
