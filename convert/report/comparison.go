package report

import (
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// A Comparison is how the runs differ from earlier ones.
type Comparison struct {
	Lines   []string // what to know first
	Changes []Change
	Tables  []*table.Table
}

// A Change is how a figure of a run changed.
type Change struct {
	Name      string
	Base, New string
	Change    float64 // part of the figure of BASE
	Spread    float64 // of the side that varies more, as a part; NaN if unknown
	Verdict   string  // "slower", "less"; "" for no proved difference
	Worse     bool
}

// mostChange is the change from which on a bar is cut.
const mostChange = 1.0

// comparison draws how the figures changed, with their spread.
func (r *Report) comparison() *Chart {
	if r.Comparison == nil {
		return nil
	}
	d := new(drawing)
	list := r.Comparison.Changes
	if len(list) > 2*mostBars {
		list = list[:2*mostBars]
	}
	most := 0.05
	for _, c := range list {
		most = max(most, math.Abs(c.Change))
		if !math.IsNaN(c.Spread) {
			most = max(most, min(math.Abs(c.Change)+c.Spread, 2*mostChange))
		}
	}
	most = min(most, mostChange)
	const center, half = 410.0, 220.0
	y := 4.0
	at := func(part float64) float64 { return center + max(-1, min(1, part/most))*half }
	for _, c := range list {
		d.label("", 0, y+12, 180, c.Name)
		d.track(center-half, y, 2*half, barHeight)
		class := "same"
		if c.Verdict != "" {
			class = map[bool]string{true: "worse", false: "better"}[c.Worse]
		}
		x := at(c.Change)
		hover := fmt.Sprintf("%s: %s → %s", c.Name, c.Base, c.New)
		d.rect(class, min(x, center), y, max(math.Abs(x-center), 0.8), barHeight, hover)
		if !math.IsNaN(c.Spread) {
			d.line("whisker", at(c.Change-c.Spread), y+barHeight/2, at(c.Change+c.Spread), y+barHeight/2)
			for _, end := range []float64{at(c.Change - c.Spread), at(c.Change + c.Spread)} {
				d.line("whisker", end, y+4, end, y+barHeight-4)
			}
		}
		d.text("strong end", center+half+78, y+12, table.Words(c.Change, table.Percent))
		d.text("t2", center+half+92, y+12, c.Base+" → "+c.New)
		d.text("t2 end", chartWidth, y+12, c.Verdict)
		y += barHeight + barGap
	}
	if len(list) == 0 {
		d.text("", 0, y+12, "no figure changed")
		y += barHeight + barGap
	}
	d.line("zero", center, 0, center, y-barGap+4)
	d.height = y + 4
	return &Chart{Title: "Comparison",
		Note: "How figures of a run changed, with the spread of the runs that varied more. " +
			"A coloured bar is a proved difference; a grey one may be chance.",
		drawing: d, Tables: r.Comparison.Tables}
}
