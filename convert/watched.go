package convert

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

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

// anyWork says whether any GPU work was read. A filter of streams and devices leaves calls alone, so calls do
// not say that it matches.
func anyWork(all []Summary) bool {
	return slices.ContainsFunc(all, func(s Summary) bool { return s.Kernels+s.Copies+s.Memsets+s.Graphs > 0 })
}

// empty says whether a filter left nothing to see.
func (c *conversion) empty() bool { return c.Filter.limits() && !c.seen }
