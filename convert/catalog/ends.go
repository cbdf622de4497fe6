package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxReplaced bounds the programs replaced by exec whose ends are kept. Each of them is looked for in all.
const maxReplaced = 1 << 12

// AllEnds are the ends of all programs, those that exec replaced among them.
func (o *Outcome) AllEnds() []tracelog.ProcessEnd {
	return append(slices.Collect(maps.Values(o.Ends)), o.replaced...)
}

// endOf is the end of a program; its Complete is 0 where the log has none. That of a program that
// exec replaced is the latest before the recorder met the program that followed.
func (o *Outcome) endOf(p *Program) (end tracelog.ProcessEnd) {
	last := o.Ends[p.PID]
	if p.Until == 0 {
		if last.Time != 0 && last.Time < p.Start {
			return end // the log has the end of the program before alone
		}
		return last
	}
	within := func(e *tracelog.ProcessEnd) bool { return e.PID == p.PID && e.Time >= p.Start && e.Time <= p.Until }
	for i := range o.replaced {
		if within(&o.replaced[i]) {
			end = o.replaced[i]
		}
	}
	if within(&last) {
		end = last // the log has no end of the program that followed
	}
	return end
}

// Correlated says whether every call of a program that puts work on a GPU should have an API
// record: CUPTI was on all the time, and the program's last message arrived.
func (c *Catalog) Correlated(p *Program) bool {
	return c.Outcome.Recorded(p.PID) && c.Outcome.endOf(p).Complete != 0 && c.Meta[tracelog.MetaSchedule] == "" && c.filter == nil
}

// CorrelatedUntil is the time up to which Correlated holds: calls made while the program handed
// over its last records have no API record.
func (c *Catalog) CorrelatedUntil(p *Program) uint64 {
	return cmp.Or(c.Outcome.endOf(p).Until, timeline.Never)
}

// Ending returns when and how a program ended, 0 and "" as far as it is not known.
func (c *Catalog) Ending(p *Program) (at uint64, how string) {
	e, known := c.Outcome.Ends[p.PID]
	switch {
	case p.Until != 0:
		return p.Until, "exec"
	case !known:
		return 0, ""
	case strings.HasPrefix(e.Reason, "signal "):
		return e.Time, e.Reason
	case e.Status < 0:
		return e.Time, ""
	}
	return e.Time, fmt.Sprintf("exit code %d", e.Status)
}

// Horizon is the time at which a program's unfinished calls and ranges are cut off.
func (c *Catalog) Horizon(p *Program) uint64 {
	if p.Cut != 0 {
		return p.Cut
	}
	if e, ok := c.Outcome.Ends[p.PID]; ok && e.Time != 0 {
		return e.Time
	}
	return c.last
}
