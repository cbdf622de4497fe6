package join

import (
	"github.com/cudatrace/cudatrace/convert/internal/ordered"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// maxLanes bounds the tracks for overlapping spans. A span for which no track is left is cut at
// the end of the span around it.
const maxLanes = 256

// overlapLanes put spans on as many tracks of one name as their overlaps need, each span on the
// first track where it fits.
type overlapLanes struct {
	out     *spanOutput
	track   timeline.Track
	lanes   []*lane
	pending ordered.List[*span]
}

// newOverlapLanes returns lanes whose tracks are copies of one track.
func newOverlapLanes(out *spanOutput, track timeline.Track) *overlapLanes {
	return &overlapLanes{out: out, track: track, pending: ordered.NewList(nests)}
}

// nests is the order of nesting: by start; at one start, longer spans first.
func nests(a, b **span) bool {
	x, y := *a, *b
	return x.Start < y.Start || x.Start == y.Start && x.End > y.End
}

// addSpan adds a span.
func (l *overlapLanes) addSpan(sp timeline.Span) { l.pending.Add(&span{Span: sp}) }

// addInstant adds an instant.
func (l *overlapLanes) addInstant(sp timeline.Span) { l.pending.Add(&span{Span: sp, instant: true}) }

// advance puts the spans that begin before low on tracks, where no later span begins before
// low; or with all, every span, and ends them. It holds back maxHeldSpans at most.
func (l *overlapLanes) advance(low uint64, all bool) {
	full := l.pending.Len() > maxHeldSpans
	l.pending.Drain(func(sp **span) bool { return (*sp).Start < low || all || full }, func(sp **span) { l.lay(*sp) })
	if all {
		for _, lane := range l.lanes {
			lane.endAll()
		}
	}
}

func (l *overlapLanes) lay(sp *span) {
	for _, lane := range l.lanes {
		if lane.fits(sp) {
			lane.beginSpan(sp)
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
	next.beginSpan(sp)
}
