// Package spans puts records that are not calls onto tracks beside the calls: NVTX ranges and
// marks, the time that CUPTI took for itself, and events of memory pools.
//
// The input is records, in the order of the log. The output is spans that nest on each track.
// Spans that overlap without nesting are put on several tracks of one name.
package spans

import (
	"github.com/cudatrace/cudatrace/convert/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// An Emitter takes events.
type Emitter interface{ Emit(timeline.Event) }

// Output is the emitter for spans, and the selection of the spans that are shown.
type Output struct {
	Emitter   Emitter
	Selection *selection.Selection
}

// A span is a span that is not shown yet.
type span struct {
	timeline.Span
	instant bool
	moved   bool // it ended on another thread
	shown   bool // it was selected when it was put on its track
}
