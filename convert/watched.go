package convert

import "github.com/cudatrace/cudatrace/convert/timeline"

// A watched is a sink that notes whether it got anything that a filter selects.
type watched struct {
	timeline.Sink
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
	return w.Sink.Take(events)
}

// empty says whether a filter left nothing to see.
func (c *conversion) empty() bool { return c.Filter.limits() && !c.seen }
