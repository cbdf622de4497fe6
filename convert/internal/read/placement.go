package read

import (
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Placement names the fields of a kind of event that give its time and its place. An event is a record with a time,
// of which there are many.
type Placement struct {
	Start, Dur  string // Dur is "" for an event without a duration
	context, id string // fields of the thread or stream, "" for none
	device      string
	as          tracelog.Kind // the kind whose watermarks it shares
	zero        bool          // a start of 0 is a time like any other
	own         bool          // each thread or stream has watermarks of its own
}

// placementOf has the placements of the kinds of event, by kind, as the tables of the log give them.
var placementOf = func() (all [256]*Placement) {
	for _, t := range schema.Records() {
		l := schema.LayoutOf(t.Kind)
		if t.Role != schema.Event {
			continue
		}
		name := func(field int) string {
			if field < 0 {
				return ""
			}
			return t.Fields[field].Name
		}
		p := &Placement{
			Start: name(l.Times[0]), Dur: name(l.Dur), id: t.Owner, own: t.Owner != "", device: name(l.Device), as: t.Kind,
			zero: true,
		}
		switch {
		case t.Kind.IsWork():
			p.as, p.zero, p.context = tracelog.KindKernel, false, name(l.Context)
		case t.Beside != 0:
			p.as = t.Beside
		}
		all[t.Kind] = p
	}
	return all
}()

// kindsOfWork are the kinds of GPU work.
var kindsOfWork = kindsThat(func(t schema.Table) bool { return t.Kind.IsWork() })

func kindsThat(have func(schema.Table) bool) (kinds []tracelog.Kind) {
	for _, t := range schema.Records() {
		if have(t) {
			kinds = append(kinds, t.Kind)
		}
	}
	return kinds
}

// PlacementOf returns the placement of a kind of event, nil for other kinds.
func PlacementOf(k tracelog.Kind) *Placement { return placementOf[k] }

// readTogether returns the kinds of event, in groups: kinds that share watermarks by thread or stream, and all others.
func readTogether() [][]tracelog.Kind {
	var groups [][]tracelog.Kind
	var others []tracelog.Kind
	for _, t := range schema.Records() {
		p := PlacementOf(t.Kind)
		if p == nil {
			continue
		}
		if !p.own {
			others = append(others, t.Kind)
			continue
		}
		i := slices.IndexFunc(groups, func(g []tracelog.Kind) bool { return PlacementOf(g[0]).as == p.as })
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], t.Kind)
	}
	return append(groups, others)
}
