package convert

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// ErrNothing says that a filter leaves nothing of the logs to see. No trace was made.
var ErrNothing = errors.New("nothing matches the filter")

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

// anyWork reports whether any GPU work was read. A filter of streams and devices leaves calls alone, so calls do
// not say that it matches.
func anyWork(all []Summary) bool {
	return slices.ContainsFunc(all, func(s Summary) bool { return s.Kernels+s.Copies+s.Memsets+s.Graphs > 0 })
}

// plain is a sink that counts no slices.
type plain struct{ timeline.Sink }

func (plain) Slices() uint64 { return 0 }

// empty reports whether a filter left nothing to see.
func (c *conversion) empty() bool { return c.Filter.limits() && !c.seen }

// watch does the second reading, notes whether the sink got anything to see, and counts the slices. It
// fails when there are more than a number of them, 0 for any number.
func (c *conversion) watch(sink counting, most uint64) ([]Summary, error) {
	watching := &watched{counting: sink, most: cmp.Or(most, math.MaxUint64)}
	all, err := c.run(watching)
	for i := range all {
		all[i].Slices = sink.Slices()
	}
	if err == nil && sink.Slices() > watching.most {
		err = &SinkError{output.ErrTooLarge}
	}
	c.seen = watching.seen && (len(c.Filter.Devices)+len(c.Filter.Streams) == 0 || anyWork(all))
	return all, err
}
