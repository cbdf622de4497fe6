package convert

import (
	"fmt"
	"maps"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/join"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// memoryLacks says what CUPTI's records of allocations lack, "" where allocations are not from such. How much of it the
// program has is not known: calls that CUPTI records have no arguments.
func (l *log) memoryLacks(found *join.Found) string {
	c := l.catalog
	if !c.MemoryWithoutCalls() {
		return ""
	}
	lacks := []string{"stream-ordered memory"}
	calls, name := uint64(0), ""
	for _, f := range found.Calls.Functions {
		if f.Calls > 0 && cudaapi.AllocatesApart(f.Function.Name) {
			if calls += f.Calls; name == "" {
				name = f.Function.Name
			}
		}
	}
	if calls > 0 {
		lacks[0] = fmt.Sprintf("the memory of %s such as %s", figures.Count(calls, "call", "calls"), name)
	}
	for _, pid := range c.Processes.PIDs {
		if e, ended := c.Outcome.LastEnd(pid); c.Outcome.Recorded(pid) && (!ended || e.Complete == 0) {
			lacks = append(lacks, "what was not freed when a process, or the log, ended without CUPTI's last records")
			break
		}
	}
	return "CUPTI's records lack " + strings.Join(lacks, ", and ")
}

// memoryUnknown says when the program may have allocated and freed unrecorded; "" where it cannot have.
func (l *log) memoryUnknown() string {
	c := l.catalog
	meta := maps.Clone(c.Meta)
	delete(meta, tracelog.MetaLast) // it knows what was held when its time began
	var when []string
	switch {
	case c.WithoutMemory() != "":
		return ""
	case tracelog.CapturesRanges(meta):
		when = append(when, "outside of the recorded parts")
	case tracelog.BeginsMidway(meta):
		when = append(when, "before the recording began")
	}
	gaps := c.Outcome.LostOf(tracelog.LostMemoryCalls)
	for i, gap := range gaps {
		if i == shownGaps && len(gaps) > shownGaps+1 {
			when = append(when, "at "+figures.Count(len(gaps)-i, "more such time", "more such times"))
			break
		}
		from, to := max(gap.From, c.First())-c.First(), max(gap.To, c.First())-c.First()
		when = append(when, fmt.Sprintf("between %s and %s", figures.DurationBeside(from, to), figures.Duration(to)))
	}
	if len(when) == 0 {
		return ""
	}
	why := ""
	if len(gaps) > 0 {
		why = ": a profiler in the program had CUPTI's callbacks"
	}
	return "what was allocated and freed " + strings.Join(when, ", ") + " is not known" + why
}

// shownGaps is the most times without memory calls that are listed.
const shownGaps = 3
