package pfsink

import (
	"bytes"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
)

// The time that CUPTI took has a track where it is a hundredth of the time or more; less is in the way of what people look for.
func TestNegligible(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		spans  int
		length uint64
		shown  bool
	}{{1, 9_999, false}, {1, 10_000, true}, {2, 5_000, true}, {maxOverheads, 1, true}} {
		p := &timeline.Process{PID: 10, Name: "app"}
		thread := &timeline.Thread{Process: p, TID: 10, Main: true}
		track := &timeline.Track{Process: p, Category: timeline.CUPTI}
		events := []timeline.Event{&timeline.Recording{Processes: 1}, p,
			&timeline.Slices{Thread: thread, List: []timeline.Slice{{Function: launch, Arguments: &timeline.Arguments{Args: []uint64{0, 1}}, Start: 1000, End: 1_001_000}}}}
		for i := range of.spans {
			start := 2000 + uint64(i)*of.length
			flush := timeline.Span{Name: "flush", Start: start, End: start + of.length}
			events = append(events, &timeline.SpanEnd{Track: track, Span: flush})
		}
		var out bytes.Buffer
		s := New(&out, Options{})
		must.Do(t, s.Take(events))
		must.Do(t, s.End(nil))
		if shown := bytes.Contains(out.Bytes(), []byte("CUPTI overhead")); shown != of.shown {
			t.Errorf("%d spans of %d ns in 1 ms: shown %v, want %v", of.spans, of.length, shown, of.shown)
		}
	}
}
