package stats

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// gapList is the report of single gaps: it keeps the longest ones.
type gapList struct {
	list  []gapRow
	least uint64 // a gap that is not longer is not among the longest; 0 as long as all are kept
	all   uint64 // gaps
}

const (
	mostGaps = 1_000
	gapsRoom = 2 * mostGaps // before the shorter ones go
)

// A gapRow is a time without work on a GPU.
type gapRow struct {
	from, length  uint64
	next          *timeline.Stream
	what          string // the launching thread did for the longest part of it
	before, after activity.Launch
}

func (l *gapList) add(g *activity.Gap) {
	l.all++
	length := g.To - g.From
	if l.least > 0 && length <= l.least {
		return
	}
	x := gapRow{
		from: g.From, length: length, next: g.Lane.Stream, what: g.What, before: g.Last.Launch, after: g.Next.Launch,
	}
	longest := g.To - g.Ready
	for i := range g.Spent {
		if s := &g.Spent[i]; s.Time > longest {
			longest, x.what = s.Time, s.What()
		}
	}
	if l.list = append(l.list, x); len(l.list) == gapsRoom {
		l.sort()
		l.list = l.list[:mostGaps]
		l.least = l.list[mostGaps-1].length
	}
}

func (l *gapList) sort() {
	slices.SortFunc(l.list, func(a, b gapRow) int {
		return cmp.Or(cmp.Compare(b.length, a.length), cmp.Compare(a.from, b.from), cmp.Compare(a.next.ID, b.next.ID))
	})
}

var gapsReport = Report{
	Name: "gaps", Title: "the longest times without work on a GPU", Detail: true,
	needs: gpuWork, whyEmpty: "no idle time between GPU work",
	table: func(s *Sink, f Facts) *table.Table { return s.gapTable(f.Startup) },
}

// gapCells is a row of gaps.
type gapCells struct {
	Name   string  `key:"name" title:"meanwhile"` // what the launching thread did longest in it, as in `idle`
	At     uint64  `key:"at_ns" title:"at" unit:"moment"`
	Length uint64  `key:"length_ns" title:"length"` // from the end of one piece of work to the start of the next
	GPU    uint32  `key:"gpu" title:"GPU" rank:"1" unit:"id"`
	Rank   *uint32 `key:"rank" title:"rank" rank:"1" unit:"id"`
	PID    uint32  `key:"pid" unit:"id"`
	// work that ended last before it, and the work that ends it
	Before string `key:"before" title:"kernel before" rank:"4"`
	After  string `key:"after" title:"kernel after" rank:"3"` // =
	Line   string `key:"line" title:"launched at" rank:"2"`   // Python line that launched the work that ends it
	// sum of the rows with this `name`
	OfCause uint64 `key:"of_name_ns" title:"all of these" rank:"5"`
}

// gapTable returns the report, of the steady states alone unless the start-up counts.
func (s *Sink) gapTable(startup bool) *table.Table {
	s.busy.sorted()
	s.gaps.sort()
	var rows []gapCells
	title := func(l *activity.Launch) string {
		if l.Shape == nil {
			return ""
		}
		return s.names.Title(&timeline.Work{Kind: l.Kind, Shape: l.Shape})
	}
	sums, left := make(map[string]uint64), 0
	for i := range s.gaps.list[:min(len(s.gaps.list), mostGaps)] {
		g := &s.gaps.list[i]
		p := g.next.Context.Process
		if !startup && g.from < s.beginning(p) {
			left++
			continue
		}
		x := gapCells{
			Name: g.what, At: s.clock.since(g.from), Length: g.length, GPU: g.next.Context.GPU, Rank: p.Rank.Nullable(),
			PID: p.PID, Before: title(&g.before), After: title(&g.after),
		}
		if g.after.Python != nil {
			x.Line = g.after.Python.Own().Short()
		}
		sums[x.Name] = sketch.Sum(sums[x.Name], g.length)
		rows = append(rows, x)
	}
	for i := range rows {
		rows[i].OfCause = sums[rows[i].Name]
	}
	t := table.Of(rows)
	names := s.shortNames()
	t.Columns[t.Column("before")].Short = func(row table.Row) string { return names.Known(row.Of.(*gapCells).Before) }
	t.Columns[t.Column("after")].Short = func(row table.Row) string { return names.Known(row.Of.(*gapCells).After) }
	if s.gaps.all > mostGaps {
		t.Notes = append(t.Notes, "of "+figures.Group(s.gaps.all)+" gaps the longest "+figures.Group(mostGaps)+" are kept")
	}
	if left > 0 {
		in := figures.Count(left, "gap is", "gaps are") + " of the start-up (--with-startup has them)"
		t.Notes = append(t.Notes, in)
	}
	return t
}
