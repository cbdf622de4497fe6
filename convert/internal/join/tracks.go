package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// Spans are records that are not calls, on tracks beside the calls: NVTX ranges and marks, the time that CUPTI took for
// itself, events of memory pools. Spans of a track nest; those that overlap without nesting get several tracks of one
// name.

// An emitter takes events.
type emitter interface{ Emit(timeline.Event) }

// spanOutput is the emitter for spans, and the selection of the spans that are shown.
type spanOutput struct {
	emitter   emitter
	selection *selection.Selection
	steps     pattern.Ranges // which NVTX ranges are steps
	first     int64          // the number of the first of those without one
	budget    *Budget
	found     *Found
	from, to  uint64 // spans that end before From, or begin after To, are not shown; To 0 is no limit
}

// shows reports whether a span of a track is shown. A span that has not ended ends late enough.
func (o *spanOutput) shows(sp *span, t *timeline.Track) bool {
	if !sp.Open && sp.End < o.from || o.to > 0 && sp.Start > o.to {
		return false
	}
	if o.selection != nil && t.Category == timeline.NVTX && !sp.instant {
		o.selection.Ranges.Saw(&sp.Span)
	}
	return o.selection.Span(&sp.Span)
}

// A span is a span that is not shown yet.
type span struct {
	timeline.Span
	instant   bool
	moved     bool // it ended on another thread
	shown     bool // it was selected when it was put on its track
	begunOpen bool // it had not ended then
	early     int  // arguments that it had then
}

// finished returns the event of the span's end.
func (sp *span) finished(t *timeline.Track) *timeline.SpanEnd {
	e := &timeline.SpanEnd{Track: t, Span: sp.Span, Late: sp.Args[sp.early:]}
	e.Open, e.Args = sp.begunOpen, sp.Args[:sp.early]
	return e
}

// nesting orders spans that begin at one time: those that have not ended first, then longer ones first.
func nesting(a, b *span) int {
	if a.Open != b.Open {
		if a.Open {
			return -1
		}
		return 1
	}
	return cmp.Compare(b.End, a.End)
}

// A lane is a track that receives spans in the order of their starts.
type lane struct {
	out   *spanOutput
	track *timeline.Track
	open  []*span // outermost first
	depth int32   // of these, those that are shown
	last  uint64  // start of the latest span
}

// fits reports whether a span lies beside or within the open spans. It first ends the spans that
// end by the span's start.
func (l *lane) fits(sp *span) bool {
	if sp.Start < l.last {
		return false
	}
	l.endUntil(sp.Start)
	if len(l.open) == 0 {
		return true
	}
	top := l.open[len(l.open)-1]
	return top.Open || !sp.Open && sp.End <= top.End
}

// endUntil ends the spans that end by a time.
func (l *lane) endUntil(at uint64) {
	for n := len(l.open); n > 0 && !l.open[n-1].Open && l.open[n-1].End <= at; n-- {
		sp := l.open[n-1]
		if sp.shown {
			l.depth--
			l.out.emitter.Emit(sp.finished(l.track))
		}
		l.open[n-1] = nil
		l.open = l.open[:n-1]
	}
}

// endAll ends all spans.
func (l *lane) endAll() { l.endUntil(timeline.Never) }

func (l *lane) beginSpan(sp *span) {
	l.last = sp.Start
	sp.shown, sp.begunOpen, sp.early, sp.Depth = l.out.shows(sp, l.track), sp.Open, len(sp.Args), l.depth
	switch {
	case sp.instant && sp.shown:
		l.out.emitter.Emit(&timeline.Instant{Track: l.track, Span: sp.Span})
	case sp.shown:
		l.depth++
		l.out.emitter.Emit(&timeline.SpanBegin{Track: l.track, Span: sp.Span})
	}
	if !sp.instant {
		l.open = append(l.open, sp)
	}
}

// cutWithin ends the open spans within a span when that span ends.
func (l *lane) cutWithin(outer *span) {
	i := slices.Index(l.open, outer)
	for _, sp := range l.open[i+1:] {
		if sp.Open || sp.End > outer.End {
			sp.Open, sp.End = false, outer.End
		}
	}
}

// cut adds a span that does not fit, cut at the end of the span around it.
func (l *lane) cut(sp *span) {
	dur := sp.End - min(sp.Start, sp.End)
	sp.Args = append(slices.Clip(sp.Args), timeline.Detail{Name: "true_duration_ns", Value: dur})
	sp.Start = max(sp.Start, l.last)
	l.endUntil(sp.Start)
	sp.End = max(sp.End, sp.Start)
	if n := len(l.open); n > 0 && !l.open[n-1].Open {
		sp.End = min(sp.End, l.open[n-1].End)
	}
	l.beginSpan(sp)
}

// maxLanes bounds the tracks for overlapping spans. A span for which no track is left is cut at
// the end of the span around it, and says how long it was.
const maxLanes = 256

// overlapLanes put spans on as many tracks of one name as their overlaps need, each span on the
// first track where it fits.
type overlapLanes struct {
	out     *spanOutput
	track   timeline.Track
	lanes   []*lane
	pending inOrder[*span]
}

// newOverlapLanes returns lanes whose tracks are copies of one track. A bound counts the spans that wait for
// earlier ones.
func newOverlapLanes(out *spanOutput, bound *Bound, track timeline.Track) *overlapLanes {
	start := func(sp **span) uint64 { return (*sp).Start }
	return &overlapLanes{out: out, track: track, pending: newInOrder(bound, &out.found.Late, start, nests)}
}

// nests is the order of nesting: by start; at one start, longer spans first.
func nests(a, b **span) bool {
	x, y := *a, *b
	return x.Start < y.Start || x.Start == y.Start && x.End > y.End
}

// addSpan adds a span.
func (l *overlapLanes) addSpan(sp timeline.Span) { l.pending.add(&span{Span: sp}) }

// addInstant adds an instant.
func (l *overlapLanes) addInstant(sp timeline.Span) { l.pending.add(&span{Span: sp, instant: true}) }

// advance puts the spans that begin before low on tracks, where no later span begins before
// low; or with all, every span, and ends them.
func (l *overlapLanes) advance(low uint64, all bool) {
	l.pending.drain(low, all, func(sp **span) { l.lay(*sp) })
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
