package read

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxUnordered bounds the ends of one process among which an end may be that comes too late in the file. The recorder
// writes those of a process in the order of time.
const maxUnordered = 1 << 6

// addEnd takes the end of a program.
func (o *Outcome) addEnd(e tracelog.ProcessEnd) {
	ends := o.ends[e.PID]
	at := len(ends)
	for at > 0 && ends[at-1].Time > e.Time && at > len(ends)-maxUnordered {
		at--
	}
	o.ends[e.PID] = slices.Insert(ends, at, e)
}

// AllEnds are the ends of all programs, those that exec replaced among them.
func (o *Outcome) AllEnds() (ends []tracelog.ProcessEnd) {
	for _, of := range o.ends {
		ends = append(ends, of...)
	}
	return ends
}

// LastEnd is the end of the last program of a process whose end the log has.
func (o *Outcome) LastEnd(pid uint32) (end tracelog.ProcessEnd, ok bool) {
	ends := o.ends[pid]
	if len(ends) == 0 {
		return end, false
	}
	return ends[len(ends)-1], true
}

// EndOf is the end of a program. That of a program that exec replaced is the latest before the recorder met the
// program that followed.
func (o *Outcome) EndOf(p *Program) (end tracelog.ProcessEnd, ok bool) {
	ends := o.ends[p.PID]
	if p.Until != 0 {
		after, _ := slices.BinarySearchFunc(ends, p.Until, func(e tracelog.ProcessEnd, until uint64) int {
			if e.Time <= until {
				return -1
			}
			return 1
		})
		ends = ends[:after]
	}
	if len(ends) == 0 {
		return end, false
	}
	end = ends[len(ends)-1]
	if end.Time != 0 && end.Time < p.Start {
		return tracelog.ProcessEnd{}, false // it is that of the program before
	}
	return end, true
}

// Correlated reports whether every call of a program that puts work on a GPU should have an API
// record: CUPTI was on all the time, and the program's last message arrived.
func (c *Catalog) Correlated(p *Program) bool {
	e, _ := c.Outcome.EndOf(p)
	return c.Outcome.Recorded(p.PID) && e.Complete != 0 && c.Meta[tracelog.MetaSchedule] == "" && c.filter == nil
}

// HandedOver is the time at which a program handed over its last records: a call that ended later has no API record.
func (c *Catalog) HandedOver(p *Program) uint64 {
	e, _ := c.Outcome.EndOf(p)
	return cmp.Or(e.Until, timeline.Never)
}

// Midway returns from when on a program of a process is known if it may have used GPUs before, else 0: the recorder
// attached to it, the recording begins with a delay, is of chosen parts or of the latest time, or the filter begins
// later than the log's GPU work.
func (c *Catalog) Midway(of *ProcessRecords, p *Program) uint64 {
	held := c.Number(tracelog.MetaLastHeld)
	switch {
	case c.filter != nil && c.filter.From > max(p.Start, c.Began):
		return c.filter.From
	case held > 0 && c.last > p.Start+held:
		return c.last - held
	case tracelog.IsAttached(c.Meta):
		// not one that began later
		if p == of.Programs[0] && slices.Contains(strings.Fields(c.Meta[tracelog.MetaOptions]), fmt.Sprint(p.PID)) {
			return max(p.Start, 1)
		}
	case c.Meta[tracelog.MetaLast] == "" && tracelog.BeginsMidway(c.Meta):
		return max(p.Start, 1)
	}
	return 0
}

// Ending returns when and how a program ended, 0 and "" as far as it is not known.
func (c *Catalog) Ending(p *Program) (at uint64, how string) {
	e, known := c.Outcome.EndOf(p)
	switch {
	case c.ranExec(p):
		return p.Until, timeline.ExitExec
	case !known:
		return 0, ""
	case strings.HasPrefix(e.Reason, "signal "):
		return e.Time, e.Reason
	case e.Status < 0:
		return e.Time, ""
	}
	return e.Time, fmt.Sprintf("exit code %d", e.Status)
}

// Ended returns how the program ended that the recorder started, and its exit status; "" and -1 when not known.
func (c *Catalog) Ended() (how string, status int) {
	var n uint8
	how = c.Meta[tracelog.MetaEnded]
	if _, err := fmt.Sscanf(how, "exit code %d", &n); err == nil {
		return how, int(n)
	}
	if _, err := fmt.Sscanf(how, "signal %d", &n); err == nil && n < 128 {
		return how, 128 + int(n)
	}
	return how, -1
}

// Number returns a number from the facts of the recording, 0 when it is not there.
func (c *Catalog) Number(key string) uint64 {
	n, err := strconv.ParseUint(c.Meta[key], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// ranExec reports whether a program was replaced by exec. Otherwise it ended, and the next program only has the same
// PID.
func (c *Catalog) ranExec(p *Program) bool {
	e, known := c.Outcome.EndOf(p)
	return p.Until != 0 && (!known || e.Reason == timeline.ExitExec)
}

// Horizon is the time at which a program's unfinished calls and ranges are cut off.
func (c *Catalog) Horizon(p *Program) uint64 {
	if p.Cut != 0 && c.ranExec(p) {
		return p.Cut
	}
	if e, ok := c.Outcome.EndOf(p); ok && e.Time != 0 {
		return e.Time
	}
	return c.last
}
