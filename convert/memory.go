package convert

import (
	"fmt"
	"maps"
	"strings"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

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
