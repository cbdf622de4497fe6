package convert

import (
	"cmp"
	"slices"
)

// maxLanes bounds the tracks that spans which overlap are spread over. Spans for
// which no track is left are cut off at the end of the one around them.
const maxLanes = 256

// A lane is a track that is being filled with spans in the order of their starts.
type lane struct {
	spans []Span
	open  []uint64 // ends of the open spans, outermost first
}

// fits says whether a span lies beside or within what is open, and closes what
// has ended by its start.
func (l *lane) fits(sp *Span) bool {
	for len(l.open) > 0 && l.open[len(l.open)-1] <= sp.Start {
		l.open = l.open[:len(l.open)-1]
	}
	return len(l.open) == 0 || sp.End <= l.open[len(l.open)-1]
}

func (l *lane) add(sp Span) {
	sp.Depth = int32(len(l.open))
	if !sp.Instant {
		l.open = append(l.open, sp.End)
	}
	l.spans = append(l.spans, sp)
}

// cut adds a span that does not fit, as far as it does.
func (l *lane) cut(sp Span) {
	sp.Args = append(slices.Clip(sp.Args), Detail{Name: "true_duration_ns", Value: sp.End - sp.Start})
	sp.End = l.open[len(l.open)-1]
	l.add(sp)
}

// sortSpans puts spans into the order in which they nest: by start, what lasts
// longer first.
func sortSpans(spans []Span) {
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
}

// nest lays the spans that lie beside or within one another onto one track, and
// returns the rest. A viewer would exchange the durations of others.
func nest(spans []Span) (nested, rest []Span) {
	sortSpans(spans)
	var l lane
	for _, sp := range spans {
		if l.fits(&sp) {
			l.add(sp)
		} else {
			rest = append(rest, sp)
		}
	}
	return l.spans, rest
}

// spread lays spans onto as many tracks as their overlaps need, each onto the
// first on which it fits.
func spread(spans []Span) [][]Span {
	sortSpans(spans)
	var lanes []*lane
next:
	for _, sp := range spans {
		for _, l := range lanes {
			if l.fits(&sp) {
				l.add(sp)
				continue next
			}
		}
		if len(lanes) == maxLanes {
			lanes[maxLanes-1].cut(sp)
			continue
		}
		lanes = append(lanes, &lane{})
		lanes[len(lanes)-1].add(sp)
	}
	out := make([][]Span, len(lanes))
	for i, l := range lanes {
		out[i] = l.spans
	}
	return out
}

// addTracks spreads spans onto tracks of a process that have one name.
func (p *Process) addTracks(name, category string, spans []Span) {
	for _, lane := range spread(spans) {
		p.Tracks = append(p.Tracks, &Track{PID: p.PID, Name: name, Category: category, Spans: lane})
	}
}
