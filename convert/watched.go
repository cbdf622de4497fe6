package convert

import (
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A counting sink counts the slices of the trace that it makes.
type counting interface {
	timeline.Sink
	Slices() uint64
}

// A watched is a sink that notes whether it got anything that a filter selects, and fails when it has
// too many slices.
type watched struct {
	counting
	most uint64
	seen bool
}

func (w *watched) Take(events []timeline.Event) error {
	for _, e := range events {
		if w.seen {
			break
		}
		switch e := e.(type) {
		case *timeline.Slices:
			w.seen = len(e.List) > 0
		case *timeline.WorkList:
			w.seen = len(e.List) > 0
		case *timeline.SpanBegin:
			w.seen = e.Track.Category == timeline.NVTX
		case *timeline.Instant:
			w.seen = e.Track.Category == timeline.NVTX
		}
	}
	if err := w.counting.Take(events); err != nil {
		return err
	}
	if w.Slices() > w.most {
		return output.ErrTooLarge
	}
	return nil
}

// empty says whether a filter left nothing to see.
func (c *conversion) empty() bool { return c.Filter.limits() && !c.seen }
