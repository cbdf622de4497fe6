package convert

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
)

// A memorySink follows what a timeline says of memory.
type memorySink struct {
	start    uint64
	ends     map[uint32]uint64
	live     map[string]string // allocations, by process, address and kind
	counters map[string]uint64 // latest values
	first    map[string]uint64 // times of the first ones
	times    []uint64          // of the events
	early    uint64            // bytes allocated before the time of the filter
}

func newMemorySink() *memorySink {
	return &memorySink{ends: make(map[uint32]uint64), live: make(map[string]string), counters: make(map[string]uint64), first: make(map[string]uint64)}
}

func (s *memorySink) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Recording:
			s.start = e.Start
		case *timeline.Process:
			s.ends[e.PID] = e.End
		case *timeline.CounterValue:
			name := fmt.Sprint(e.Counter.Process.PID, " ", e.Counter.Name)
			if _, known := s.counters[name]; !known {
				s.first[name] = e.Time
			}
			s.counters[name] = e.Value
		case *timeline.Allocation:
			key := fmt.Sprint(e.Process.PID, " ", e.Address, " ", e.Kind)
			s.times = append(s.times, e.Time)
			if e.Release {
				delete(s.live, key)
				continue
			}
			at, caller, python := e.Time, "", ""
			if e.Allocated != 0 {
				at, s.early = e.Allocated, s.early+e.Bytes
			}
			if e.Call.Caller != nil {
				caller = e.Call.Caller.Text()
			}
			if e.Call.Python != nil {
				python = e.Call.Python.Text()
			}
			name := ""
			if e.Call.Function != nil {
				name = e.Call.Name
			}
			s.live[key] = fmt.Sprintf("%d bytes on GPU %d at %d by %s %s %s", e.Bytes, e.GPU, at, name, caller, python)
		}
	}
	return nil
}

func (s *memorySink) End(error) error { return nil }

// Whatever the time at which a filter begins, what is live at the end of the recording is the same, with who allocated
// it and when; and the counters of memory end with the same values.
func TestMemoryOfWindows(t *testing.T) {
	t.Parallel()
	logs := map[string]logtest.Opener{"train": Path("../testdata/gpu/logs/train.cudatrace").Open}
	for _, text := range logtest.Texts(t, "testdata") {
		if text.Name == "memory" || text.Name == "memorycalls" {
			logs[text.Name] = logtest.Assemble(t, text.Text)
		}
	}
	if len(logs) != 3 {
		t.Fatalf("logs: %v", logs)
	}
	for name, open := range logs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := newMemorySink()
			must.Get(Timeline([]Log{{"log", open}}, Options{}, whole))(t)
			held := uint64(0)
			for i := 0; i < len(whole.times); i += 1 + len(whole.times)/12 {
				from := whole.times[i] + 1
				part := newMemorySink()
				must.Get(Timeline([]Log{{"log", open}}, Options{Filter: Filter{From: time.Duration(from - whole.start)}}, part))(t)
				for of, end := range whole.ends {
					if end != 0 && end < from {
						prefix := fmt.Sprint(of, " ")
						maps.DeleteFunc(whole.live, func(k, _ string) bool { return k[:min(len(k), len(prefix))] == prefix })
					}
				}
				if diff := cmp.Diff(whole.live, part.live); diff != "" {
					t.Errorf("live from %d ns on:\n%s", from-whole.start, diff)
				}
				for c, v := range part.counters {
					if v != whole.counters[c] {
						t.Errorf("from %d ns on: %s ends with %d, want %d", from-whole.start, c, v, whole.counters[c])
					}
				}
				held = max(held, part.early)
			}
			if held == 0 {
				t.Error("nothing was held when a time began")
			}
		})
	}
}

// Records of allocations that CUPTI wrote lack too much to be figures: a log with them has none, and says why.
func TestMemoryOfCUPTI(t *testing.T) {
	t.Parallel()
	log := Log{"log", logtest.Assemble(t, "process pid=60 start=100\nmeta key=memory value=cupti\n"+
		"memory pid=60 operation=1 memory_kind=3 time=1000 address=1 bytes=1\n")}
	got := must.Get(Timeline([]Log{log}, Options{}, timelinetest.NewCollector(t)))(t)[0]
	const want = "not known: the log has CUPTI's records of memory, which cudatrace no longer reads"
	if got.NoMemory != want || got.PeakDevice != 0 {
		t.Errorf("%q, want %q; a peak of %d bytes", got.NoMemory, want, got.PeakDevice)
	}
}

// A log says when its program may have allocated unrecorded: before the recording, outside of its parts, and while a
// profiler in the program had CUPTI's callbacks. One without figures of memory, and of a whole run, says nothing.
func TestMemoryUnknown(t *testing.T) {
	t.Parallel()
	const (
		log      = "process pid=60 start=1000000\nmeta key=memory value=callbacks\n"
		attached = "meta key=options value=\"-p 60\"\n"
		started  = "meta key=pid value=60\n"
		last     = "meta key=last_ns value=1000000000\n"
		call     = "api pid=60 tid=60 domain=2 cbid=20 name=cudaMalloc start=1000000 dur=100\n"
		why      = " is not known: a profiler in the program had CUPTI's callbacks"
	)
	gap := func(from, to int) string {
		return fmt.Sprintf("lost pid=60 cause=memory_calls count=1 from=%d to=%d\n", from*1000000, to*1000000)
	}
	for _, c := range []struct{ log, want string }{
		{log + started + call, ""},
		{log + attached + call, "what was allocated and freed before the recording began is not known"},
		{log + started + last + call, ""},
		{log + attached + last + call, "what was allocated and freed before the recording began is not known"},
		{log + started + last + "meta key=schedule value=\"delay 1s, last 1s\"\n" + call,
			"what was allocated and freed before the recording began is not known"},
		{log + started + "meta key=schedule value=\"capture range cudaProfilerApi\"\n" + call,
			"what was allocated and freed outside of the recorded parts is not known"},
		{strings.Replace(log, "callbacks", "\"not recorded: calls are not recorded\"", 1) + attached + call, ""},
		{log + started + call + gap(3, 5), "what was allocated and freed between 2.0 ms and 4.0 ms" + why},
		{log + attached + call + gap(3, 5),
			"what was allocated and freed before the recording began, between 2.0 ms and 4.0 ms" + why},
		{log + started + call + gap(2, 3) + gap(4, 5) + gap(6, 7) + gap(8, 9) + gap(10, 11),
			"what was allocated and freed between 1.0 ms and 2.0 ms, between 3.0 ms and 4.0 ms, between 5.0 ms and 6.0 ms, " +
				"at 2 more such times" + why},
	} {
		log := Log{"log", logtest.Assemble(t, c.log)}
		all := must.Get(Timeline([]Log{log}, Options{}, timelinetest.NewCollector(t)))(t)
		if got := all[0].MemoryUnknown; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
