package pfsink

import (
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A kernel that had not ended is drawn to the end of the recording, whether CUPTI handed it over or
// only its launch was seen. Neither a kernel without a length that ended is, nor one that waits behind it.
func TestHangs(t *testing.T) {
	t.Parallel()
	spin := &timeline.Shape{Kernel: timeline.KernelShape{Name: "_Z4spinPi", Grid: [3]uint32{4, 1, 1}}}
	one := func(id, start, dur uint64) *timeline.WorkList {
		return &timeline.WorkList{Stream: stream, List: []timeline.Work{work(id, start, dur, timeline.KernelWork, spin)}}
	}
	launched := &timeline.Hang{PID: 10, Context: 2, Stream: 7, Kernel: "_Z4spinPi", LaunchTID: 11, LaunchStart: 200, Start: 300, End: 900, Text: "waited for"}
	recorded := *launched
	recorded.Correlation, recorded.LaunchTID, recorded.LaunchStart = 2, 0, 0
	for name, c := range map[string]struct {
		events []timeline.Event
		want   []string
		slices uint64
	}{
		"handed over": {[]timeline.Event{&recorded, one(1, 100, 50), one(2, 300, 0)},
			[]string{"event_id: 1 duration: 50", `unfinished "had not ended when recording ended" } args { age_ns uint_value: 600 } args { hang "waited for"`, "event_id: 2 duration: 600"}, 2},
		"handed over, with work behind": {[]timeline.Event{&recorded, &timeline.WorkList{Stream: stream, List: slices.Concat(one(1, 100, 50).List, one(2, 300, 0).List, one(3, 310, 0).List)}},
			[]string{"event_id: 1 duration: 50", "event_id: 2 duration: 600", "event_id: 3 duration: 0"}, 3},
		"launched": {[]timeline.Event{launched, one(1, 100, 50)},
			[]string{"event_id: 1 duration: 50", `kernel_demangled_name "spin(int*)"`, "event_id: 4611686018427387905 duration: 600"}, 2},
		"ended":            {[]timeline.Event{one(1, 100, 0), one(2, 300, 5)}, []string{"event_id: 1 duration: 0", "event_id: 2 duration: 5"}, 2},
		"ended, the last":  {[]timeline.Event{one(1, 100, 0)}, []string{"event_id: 1 duration: 0"}, 1},
		"another's stream": {[]timeline.Event{&timeline.Hang{PID: 11, Context: 2, Stream: 7}, one(1, 100, 5)}, []string{"event_id: 1 duration: 5"}, 1},
	} {
		list := append([]timeline.Event{recording, process, context, stream}, c.events...)
		got := text(t, encoded(t, list))
		at := 0
		for _, want := range c.want {
			i := strings.Index(got[at:], want)
			if i < 0 {
				t.Fatalf("%s: no %q in its place in\n%s", name, want, got)
			}
			at += i
		}
		if n := strings.Count(got, "event_id: "); uint64(n) != c.slices {
			t.Errorf("%s: %d pieces of work, want %d", name, n, c.slices)
		}
	}
}
