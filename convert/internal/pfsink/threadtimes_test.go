package pfsink

import (
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A thread that is not the first of its process, that has nothing but states, and for which none waited has no row. The
// states of others are there, also those before their first call or sample, and so are all where too many would have to
// wait.
func TestHelpers(t *testing.T) {
	t.Parallel()
	first := &timeline.Thread{Process: process, TID: 10, Name: "first", Main: true}
	calls := &timeline.Thread{Process: process, TID: 12, Name: "calls"}
	sampled := &timeline.Thread{Process: process, TID: 13, Name: "sampled"}
	holder := &timeline.Thread{Process: process, TID: 15, Name: "holder"}
	helper := &timeline.Thread{Process: process, TID: 14, Name: "helper"}
	states := func(of *timeline.Thread, n int) *timeline.States {
		list := make([]timeline.State, n)
		for i := range list {
			list[i] = timeline.State{Start: uint64(200 + 2*i), End: uint64(201 + 2*i), ThreadState: timeline.Running}
			if i%2 == 1 {
				list[i].ThreadState = timeline.Runnable
			}
		}
		return &timeline.States{Thread: of, List: list}
	}
	for _, c := range []struct {
		ofHelper, want int // states of the helper
	}{{2, 0}, {mostHeld, mostHeld}} {
		waits := states(first, 2)
		waits.List[1].Why = &timeline.Block{Holder: holder}
		events := []timeline.Event{recording, process, states(helper, 2), states(holder, 2), waits, states(calls, 2),
			states(sampled, 2)}
		if c.ofHelper > 2 {
			events = append(events, states(helper, c.ofHelper))
		}
		events = append(events, callsOf(calls, call(launch, 300, 400, 0, 0)), &timeline.StackSamples{Thread: sampled,
			Period: 1, List: []timeline.StackSample{{Time: 300, SampleMode: timeline.InKernel}}})
		got := text(t, encoded(t, events))
		for name, want := range map[string]int{"first": 2, "calls": 2, "sampled": 2, "holder": 2, "helper": c.want} {
			n := strings.Count(got, `comm: "`+name+`"`)
			if want == 0 && strings.Contains(got, name) || n < want || want == 2 && n != want {
				t.Errorf("%s has %d states, want %d", name, n, want)
			}
		}
	}
}
