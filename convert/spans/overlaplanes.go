package spans

import (
	"github.com/cudatrace/cudatrace/convert/ordered"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// maxLanes bounds the tracks that spans which overlap are laid on. Spans for which no
// track is left are cut off at the end of the one around them.
const maxLanes = 256

// OverlapLanes lay spans onto as many tracks of one name as their overlaps need, each
// onto the first on which it fits.
type OverlapLanes struct {
	out     *Output
	track   timeline.Track
	lanes   []*lane
	pending ordered.List[*span]
}

// NewOverlapLanes returns lanes of tracks like one.
func NewOverlapLanes(out *Output, track timeline.Track) *OverlapLanes {
	return &OverlapLanes{out: out, track: track, pending: ordered.NewList(nests)}
}

// nests is the order in which spans nest: by start, what lasts longer first.
func nests(a, b **span) bool {
	x, y := *a, *b
	return x.Start < y.Start || x.Start == y.Start && x.End > y.End
}

// Add adds a span.
func (l *OverlapLanes) Add(sp timeline.Span) { l.pending.Add(&span{Span: sp}) }

// AddInstant adds an instant.
func (l *OverlapLanes) AddInstant(sp timeline.Span) { l.pending.Add(&span{Span: sp, instant: true}) }

// Advance lays the spans that begin before low, a time that none to come begins before;
// or with all, every one, and ends them.
func (l *OverlapLanes) Advance(low uint64, all bool) {
	l.pending.Drain(func(sp **span) bool { return (*sp).Start < low || all }, func(sp **span) { l.lay(*sp) })
	if all {
		for _, lane := range l.lanes {
			lane.endAll()
		}
	}
}

func (l *OverlapLanes) lay(sp *span) {
	for _, lane := range l.lanes {
		if lane.fits(sp) {
			lane.add(sp)
			return
		}
	}
	if len(l.lanes) == maxLanes {
		l.lanes[maxLanes-1].cut(sp)
		return
	}
	track := l.track
	next := &lane{out: l.out, track: &track}
	l.lanes = append(l.lanes, next)
	next.add(sp)
}
