package spans

import (
	"github.com/cudatrace/cudatrace/convert/ordered"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// maxLanes bounds the tracks for overlapping spans. A span for which no track is left is cut at
// the end of the span around it.
const maxLanes = 256

// OverlapLanes put spans on as many tracks of one name as their overlaps need, each span on the
// first track where it fits.
type OverlapLanes struct {
	out     *Output
	track   timeline.Track
	lanes   []*lane
	pending ordered.List[*span]
}

// NewOverlapLanes returns lanes whose tracks are copies of one track.
func NewOverlapLanes(out *Output, track timeline.Track) *OverlapLanes {
	return &OverlapLanes{out: out, track: track, pending: ordered.NewList(nests)}
}

// nests is the order of nesting: by start; at one start, longer spans first.
func nests(a, b **span) bool {
	x, y := *a, *b
	return x.Start < y.Start || x.Start == y.Start && x.End > y.End
}

// Add adds a span.
func (l *OverlapLanes) Add(sp timeline.Span) { l.pending.Add(&span{Span: sp}) }

// AddInstant adds an instant.
func (l *OverlapLanes) AddInstant(sp timeline.Span) { l.pending.Add(&span{Span: sp, instant: true}) }

// Advance puts the spans that begin before low on tracks, where no later span begins before
// low; or with all, every span, and ends them. It holds back maxHeldSpans at most.
func (l *OverlapLanes) Advance(low uint64, all bool) {
	full := l.pending.Len() > maxHeldSpans
	l.pending.Drain(func(sp **span) bool { return (*sp).Start < low || all || full }, func(sp **span) { l.lay(*sp) })
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
