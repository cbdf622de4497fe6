package spans

import (
	"fmt"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/convert/timeline/timelinetest"
)

// An emitter gives events to a collector one by one.
type emitter struct{ *timelinetest.Collector }

func (e emitter) Emit(event timeline.Event) {
	if err := e.Take([]timeline.Event{event}); err != nil {
		panic(err)
	}
}

// Spans that all overlap are on tracks of their own, up to the bound; the others are cut
// where the one around them ends, and say how long they were.
func TestOverlapLanesBound(t *testing.T) {
	t.Parallel()
	sink := emitter{timelinetest.NewCollector(t)}
	process := &timeline.Process{}
	sink.Emit(&timeline.Recording{})
	sink.Emit(process)
	l := NewOverlapLanes(&Output{Emitter: sink}, timeline.Track{Process: process, Name: "spans"})
	const n = maxLanes + 10
	for i := range uint64(n) {
		l.Add(timeline.Span{Name: fmt.Sprint(i), Start: 100 + i, End: 10_000 + i})
	}
	l.Advance(timeline.Never, true)
	if err := sink.End(nil); err != nil {
		t.Fatal(err)
	}
	tracks := sink.Timeline().Processes[0].Tracks
	if len(tracks) != maxLanes {
		t.Fatalf("%d tracks, want %d", len(tracks), maxLanes)
	}
	last := tracks[maxLanes-1].Spans
	if len(last) != 1+n-maxLanes {
		t.Fatalf("%d spans on the last track, want %d", len(last), 1+n-maxLanes)
	}
	for i, sp := range last[1:] {
		if sp.End != last[0].End || sp.Depth != i+1 || len(sp.Args) != 1 || sp.Args[0] != (timeline.Detail{Name: "true_duration_ns", Value: 9900}) {
			t.Errorf("cut span %+v", sp)
		}
	}
}
