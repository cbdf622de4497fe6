package diff

import (
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

// conditions is the table of conditions: those that hold first, then those that could not be checked.
func (p *Page) conditions() *table.Table {
	t := &table.Table{Name: "conditions", Title: conditionsVerdict(p.Outcomes), Whole: true, Columns: []table.Column{
		{Key: "state", Title: "result", Unit: table.Plain}, {Key: "name", Title: "condition"},
		{Key: "figure", Title: "figure"}}}
	for _, state := range []State{Failed, Broken, Absent, Passed} {
		for _, o := range p.Outcomes {
			if o.State == state {
				t.Add(string(o.State), o.Text, o.Verdict())
			}
		}
	}
	return t
}

// conditionsVerdict says how many conditions hold: "1 of 3 conditions failed".
func conditionsVerdict(outcomes []*Outcome) string {
	failed, broken := 0, 0
	for _, o := range outcomes {
		switch o.State {
		case Failed:
			failed++
		case Broken:
			broken++
		}
	}
	words := fmt.Sprintf("%d of %s failed", failed, figures.Count(len(outcomes), "condition", "conditions"))
	if broken > 0 {
		words += fmt.Sprintf(", %d could not be checked", broken)
	}
	return words
}

// Verdict says what a condition found: the figure that is worst, or why it could not be checked and what that takes.
// All forms of the output have it.
func (o *Outcome) Verdict() string {
	if o.Why != "" {
		return o.Why
	}
	x := o.Cases[0]
	words := ""
	if x.Name != "" {
		words = x.Name + ": "
	}
	switch {
	case !o.Change:
		words += table.Words(x.Value, o.Unit)
	case x.Base == 0 && x.New != 0:
		words += pairWords(x.compared, o.Unit)
	default:
		words += fmt.Sprintf("%s (%s", pairWords(x.compared, o.Unit), table.Words(x.compared.change(), table.Percent))
		words += chanceWords(x.Q) + ")"
	}
	if more := max(o.Holds, 1) - 1; more > 0 {
		words += ", and " + figures.Group(more) + " more"
	}
	if u := o.Unseen; u != nil {
		words += fmt.Sprintf("; the runs vary: a change below %s", share(u.Smallest))
		if len(o.Cases) > 1 {
			words += " of " + u.Name
		}
		words += " may be missed"
	}
	return words
}

// chanceWords says how probable so large a difference is by chance, "" where that was not tested.
func chanceWords(q float64) string {
	const least = 0.0001
	switch {
	case math.IsNaN(q):
		return ""
	case q < least:
		return ", by chance in less than 0.01 %"
	}
	return fmt.Sprintf(", by chance in %.3g %%", 100*q)
}
