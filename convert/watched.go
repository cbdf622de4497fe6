package convert

import (
	"errors"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// ErrNothing says that a filter leaves nothing of the logs to see. No trace was made.
var ErrNothing = errors.New("nothing matches the filter")

// A counting sink counts the slices of the trace that it makes.
type counting interface {
	timeline.Sink
	Slices() uint64
}

// A watched is a sink that notes whether it got anything that a filter selects.
type watched struct {
	counting
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
		case *timeline.SpanEnd:
			w.seen = e.Track.Category == timeline.NVTX
		case *timeline.Instant:
			w.seen = e.Track.Category == timeline.NVTX
		}
	}
	return w.counting.Take(events)
}

// anyWork reports whether any GPU work was read. A filter of streams and devices leaves calls alone, so calls do
// not say that it matches.
func anyWork(all []Summary) bool {
	return slices.ContainsFunc(all, func(s Summary) bool { return s.Kernels+s.Copies+s.Memsets > 0 })
}

// plain is a sink that counts no slices.
type plain struct{ timeline.Sink }

func (plain) Slices() uint64 { return 0 }

// empty reports whether a filter left nothing to see.
func (c *conversion) empty() bool { return c.Filter.limits() && !c.seen }

// watch does the second reading, notes whether the sink got anything to see, and counts the slices.
func (c *conversion) watch(sink counting) ([]Summary, error) {
	watching := &watched{counting: sink}
	all, err := c.run(watching)
	for i := range all {
		all[i].Slices = sink.Slices()
	}
	c.seen = watching.seen && (len(c.Filter.Devices)+len(c.Filter.Streams) == 0 || anyWork(all))
	return all, err
}
