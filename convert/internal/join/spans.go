package join

import (
	"cmp"

	"github.com/cudatrace/cudatrace/convert/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// Spans are records that are not calls, on tracks beside the calls: NVTX ranges and marks, the time that CUPTI took for
// itself, events of memory pools. Spans of a track nest; those that overlap without nesting get several tracks of one
// name.

// spanOutput is the emitter for spans, and the selection of the spans that are shown.
type spanOutput struct {
	emitter   emitter
	selection *selection.Selection
	steps     pattern.Ranges // which NVTX ranges are steps
	from, to  uint64         // spans that end before From, or begin after To, are not shown; To 0 is no limit
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
