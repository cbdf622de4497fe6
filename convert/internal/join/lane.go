package join

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

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
