package view

import (
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/diff"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

// conditions is the table of conditions.
func (p *Page) conditions() *table.Table {
	t := &table.Table{Name: "conditions", Title: Verdict(p.Outcomes), Columns: []table.Column{
		{Key: "name", Title: "condition"}, {Key: "state", Title: "result", Unit: table.Figures}, {Key: "figure", Title: "figure"}}}
	for _, o := range p.Outcomes {
		t.Rows = append(t.Rows, []any{o.Text, string(o.State), Explained(o)})
	}
	return t
}

// Verdict says how many conditions hold: "1 of 3 conditions failed".
func Verdict(outcomes []*diff.Outcome) string {
	failed, broken := 0, 0
	for _, o := range outcomes {
		switch o.State {
		case diff.Failed:
			failed++
		case diff.Broken:
			broken++
		}
	}
	words := fmt.Sprintf("%d of %s failed", failed, figures.Count(len(outcomes), "condition", "conditions"))
	if broken > 0 {
		words += fmt.Sprintf(", %d could not be checked", broken)
	}
	return words
}

// Explained says what a condition found: the figure that is worst.
func Explained(o *diff.Outcome) string {
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
		words += table.Words(x.Value, unitOf(o.Unit))
	case x.Base == 0 && x.New != 0:
		words += pair(x.Compared, unitOf(o.Unit))
	default:
		words += fmt.Sprintf("%s (%s", pair(x.Compared, unitOf(o.Unit)), table.Words(x.Compared.Change(), table.Percent))
		words += chance(x.Q)
		words += ")"
	}
	if more := max(o.Holds, 1) - 1; more > 0 {
		words += ", and " + figures.Group(more) + " more"
	}
	return words
}

// chance says how probable so large a difference is by chance, "" where that was not tested.
func chance(q float64) string {
	const least = 0.0001
	switch {
	case math.IsNaN(q):
		return ""
	case q < least:
		return ", by chance in less than 0.01 %"
	}
	return fmt.Sprintf(", by chance in %.3g %%", 100*q)
}
