package convert

import (
	"fmt"
	"time"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// sameBoot is the largest change of the wall clock, in ns, between two logs of one host that
// has not been restarted between them.
const sameBoot = 60e9

// align aligns the clocks of the logs and returns the timeline's clock. Logs of one host have
// one clock. Logs of several hosts are aligned by their wall clocks; the host that started
// first gives the timeline its clock.
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

// alignTo sets the shift of a log's times.
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

// duration converts ns to a time.Duration, which has no room for the largest numbers.
func duration(ns uint64) time.Duration { return time.Duration(min(ns, 1<<62)) }
