// Package spans lays what is no call onto tracks beside the calls: NVTX ranges and
// marks, the time that CUPTI took for itself, what happened to memory pools.
//
// In go records, in the order of the log. Out come spans that nest on each track. Spans
// that overlap otherwise are laid on several tracks of one name.
package spans

import (
	"github.com/cudatrace/cudatrace/convert/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// An Emitter takes events.
type Emitter interface{ Emit(timeline.Event) }

// Output is where spans go, and what of them is shown.
type Output struct {
	Emitter   Emitter
	Selection *selection.Selection
}

// A span is a span that is not shown yet.
type span struct {
	timeline.Span
	instant bool
	moved   bool // it ended on another thread
	shown   bool // it was chosen when it was laid
}
