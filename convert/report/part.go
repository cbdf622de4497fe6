package report

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// A Part is a short time: that of a typical step.
type Part struct {
	Title    string
	From, To uint64 // ns from the start of the recording
}

// Typical chooses the part of a timeline to show first: the step that took as long as most do, else a short time in the
// middle. It returns nil where the timeline has no GPU work.
func (r *Report) Typical() *Part {
	if p := r.typicalStep(); p != nil {
		return p
	}
	lanes, _ := r.Overview.lanes(mostLanes)
	if len(lanes) == 0 {
		return nil
	}
	l := lanes[0]
	from, to := r.Overview.since(l.bins[0].Start), r.Overview.since(l.bins[len(l.bins)-1].End)
	if end := r.startup(); end < to {
		from = max(from, end)
	}
	length := min(max((to-from)/50, 1e6), 50e6)
	if to-from <= 2*length {
		return newPart("The GPU work", from, to)
	}
	middle := from + (to-from)/2
	return newPart("A part in the middle", middle-length/2, middle+length/2)
}

// alike is the part of the median by which a step's time may differ from the median and count as the median. Of such
// steps the one in the middle of the run is typical.
const alike = 100

func (r *Report) typicalStep() *Part {
	_, kinds := table.Find[stats.StepKindCells](r.Tables)
	_, rows := table.Find[stats.StepCells](r.Tables)
	if len(kinds) == 0 || len(rows) == 0 {
		return nil
	}
	kind := kinds[0]
	fromMiddle := func(i int) int { return max(i, len(rows)/2) - min(i, len(rows)/2) }
	best, least := -1, uint64(0)
	for i, x := range rows {
		starting := len(rows) > int(kind.Starting)+1 && uint64(i) < kind.Starting
		if starting || x.Name != fmt.Sprintf("%s %d", kind.Name, x.Number) {
			continue
		}
		apart := max(max(x.Median, kind.Median)-min(x.Median, kind.Median), kind.Median/alike)
		if best < 0 || apart < least || apart == least && fromMiddle(i) < fromMiddle(best) {
			best, least = i, apart
		}
	}
	if best < 0 {
		return nil
	}
	x := rows[best]
	return newPart("A typical step", x.At, x.At+x.Max)
}

func newPart(title string, from, to uint64) *Part {
	return &Part{Title: title, From: max(from, 1), To: max(to, from+1, 2)}
}
