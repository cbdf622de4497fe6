package convert

import (
	"fmt"

	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// sameBoot is by how much the wall clock may have been moved, in ns, between two logs
// of one host that has not been restarted meanwhile.
const sameBoot = 60e9

// align brings the clocks of the logs together and says how the times of the trace relate
// to the world. Logs of one host have one clock. Clocks of several hosts meet through
// their wall clocks; the host that started first gives the trace its clock.
func (j *job) align() perfetto.Options {
	reference := j.logs[0]
	for _, l := range j.logs[1:] {
		if l.clocks.some && (!reference.clocks.some || l.clocks.first < reference.clocks.first) {
			reference = l
		}
	}
	o := perfetto.Options{Monotonic: reference.clock.Monotonic, Realtime: reference.clock.Realtime, Boottime: reference.clock.Boottime, Start: never}
	for _, l := range j.logs {
		l.alignTo(reference)
		o.Start = min(o.Start, l.catalog.first+l.shift)
	}
	return o
}

// alignTo says by how much the times of a log are moved.
func (l *log) alignTo(r *log) {
	a, b := &l.clocks, &r.clocks
	switch {
	case l == r:
	case !a.some || !b.some:
		l.text = "it has no reading of the clocks: its times are shown as they are"
	case l.host() == r.host() && within(a.started, b.started, sameBoot):
		l.text = fmt.Sprintf("same host as %s: the clock is the same", r.name)
	default:
		l.shift = uint64(a.first - b.first)
		l.text = fmt.Sprintf("moved by %s against %s through the wall clocks of %s and %s: right to what these differ by (about a millisecond with NTP), and they moved by up to %s while recording",
			ns(l.shift), r.name, l.host(), r.host(), ns(a.spread()+b.spread()))
	}
}

func (l *log) host() string { return l.meta[tracelog.MetaHost] }

func within(a, b, most int64) bool { return a-b <= most && b-a <= most }
