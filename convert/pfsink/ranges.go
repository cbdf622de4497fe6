package pfsink

import (
	"cmp"
	"fmt"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// rangesInfo describes the track of a thread's NVTX ranges on a stream. Perfetto shows GPU work on
// tracks that take no other slices, so the ranges have a track of the process.
func (s *Sink) rangesInfo(t *timeline.Track) perfetto.TrackInfo {
	return perfetto.TrackInfo{Name: rangesName(t), PID: t.Process.PID, Rank: ranks[timeline.NVTX]}
}

// rangesName names the stream, and the thread unless it is the main one.
func rangesName(t *timeline.Track) string {
	name := t.Name + " on " + queueName(t.Stream, false)
	if c := t.Stream.Context; c.GPU != 0 {
		name += fmt.Sprintf(" of GPU %d", c.GPU)
	}
	if t.Thread != nil && !t.Thread.Main {
		name += fmt.Sprintf(" · %s %d", cmp.Or(t.Thread.Name, "thread"), t.Thread.TID)
	}
	return name
}

// spanEnd ends a span, with the facts that were not known at its beginning.
func (s *Sink) spanEnd(e *timeline.SpanEnd) {
	track := s.track(e.Track)
	if len(e.Args) == 0 {
		track.End(e.Time)
		return
	}
	s.spanArgs(e.Args)
	track.EndWith(e.Time, s.args...)
}
