package convert

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/must"
)

var (
	process    = &timeline.Process{PID: 1}
	thread     = &timeline.Thread{Process: process, TID: 2}
	stream     = &timeline.Stream{ID: 7}
	ranges     = &timeline.Track{Process: process, Thread: thread, Category: timeline.NVTX}
	live       = &timeline.Counter{Process: process, Name: "memory"}
	testLaunch = &timeline.Function{Name: "launch"}
)

// A recorder writes down events.
type recorder struct {
	lines []string
	fails error
	ended error
}

func (r *recorder) Take(events []timeline.Event) error {
	for _, e := range events {
		r.lines = append(r.lines, line(e)...)
	}
	return r.fails
}

func (r *recorder) End(err error) error {
	r.ended = err
	return nil
}

// line shows an event, a list with a line for each of its elements.
func line(e timeline.Event) (lines []string) {
	switch e := e.(type) {
	case *timeline.Recording:
		return []string{fmt.Sprintf("recording from %d", e.Start)}
	case *timeline.Slices:
		for _, sl := range e.List {
			text := fmt.Sprintf("call %d-%d %s", sl.Start, sl.End, timeline.CutText(sl.Flags))
			for _, w := range sl.Waits() {
				text += fmt.Sprintf(" waits for %d", w.Work)
			}
			lines = append(lines, strings.TrimSpace(text))
		}
		return lines
	case *timeline.WorkList:
		for _, w := range e.List {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("work %d-%d %s", w.Start, w.Start+w.Dur, timeline.CutText(w.Cut))))
		}
		return lines
	case *timeline.SpanBegin:
		return []string{strings.TrimSpace(fmt.Sprintf("span %s %d-%d %s", e.Name, e.Start, e.End, details(e.Facts())))}
	case *timeline.SpanEnd:
		return []string{strings.TrimSpace(fmt.Sprintf("span ends %d %s", e.End, details(e.LateFacts())))}
	case *timeline.Instant:
		return []string{fmt.Sprintf("instant %d", e.Start)}
	case *timeline.CounterValue:
		return []string{fmt.Sprintf("counter %d: %d", e.Time, e.Value)}
	case *timeline.Hang:
		return []string{fmt.Sprintf("hang %d-%d%s", e.Start, e.End, e.Text)}
	case *timeline.Note:
		return []string{fmt.Sprintf("note %d", e.Time)}
	}
	return []string{strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "*timeline."))}
}

func details(list []timeline.Detail) (text string) {
	for _, d := range list {
		text += d.Text
	}
	return text
}

func call(start, end uint64, waits ...timeline.Awaited) *timeline.Slices {
	sl := timeline.Slice{Function: testLaunch, Start: start, End: end}
	for _, w := range waits {
		sl.AddWait(w)
	}
	return &timeline.Slices{Thread: thread, List: []timeline.Slice{sl}}
}

func testWork(start, dur uint64, of timeline.Call) *timeline.WorkList {
	return &timeline.WorkList{Stream: stream, List: []timeline.Work{{ID: 1, Start: start, Dur: dur, Call: of}}}
}

func rangeOf(name string, start, end uint64) *timeline.SpanBegin {
	return &timeline.SpanBegin{Track: ranges, Span: timeline.Span{Name: name, Start: start, End: end}}
}

func end(start, at uint64) *timeline.SpanEnd {
	return &timeline.SpanEnd{Track: ranges, Span: timeline.Span{Start: start, End: at}}
}

func value(at, v uint64) *timeline.CounterValue {
	return &timeline.CounterValue{Counter: live, Time: at, Value: v}
}

// TestClip shows what the windows up to 100, to 200 and behind have of some events.
func TestClip(t *testing.T) {
	t.Parallel()
	windows := []window{{0, 100}, {100, 200}, {200, timeline.Never}}
	for name, c := range map[string]struct {
		events []timeline.Event
		want   [3]string
	}{
		"calls": {[]timeline.Event{call(10, 20), call(90, 99), call(110, 120), call(250, 260)},
			[3]string{"thread, call 10-20, call 90-99", "thread, call 110-120", "thread, call 250-260"}},
		"on a border": {[]timeline.Event{call(90, 100), call(100, 100), call(100, 200), call(200, 210)},
			[3]string{"thread, call 90-100", "thread, call 100-100, call 100-200", "thread, call 200-210"}},
		"across one": {[]timeline.Event{call(90, 130)},
			[3]string{"thread, call 90-100 goes on after this part", "thread, call 100-130 began before this part", ""}},
		"across all": {[]timeline.Event{call(90, 300), call(120, 130)},
			[3]string{"thread, call 90-100 goes on after this part", "thread, call 100-200 began before this part and goes on after it, call 120-130", "thread, call 200-300 began before this part"}},
		"to the end of time": {[]timeline.Event{call(timeline.Never, timeline.Never)}, [3]string{"", "", "thread, call 18446744073709551615-18446744073709551615"}},
		"waits": {[]timeline.Event{call(90, 130, timeline.Awaited{Work: 1, Start: 50, End: 60}, timeline.Awaited{Work: 2, Start: 95, End: 105}, timeline.Awaited{Work: 3, Start: 110, End: 120})},
			[3]string{"thread, call 90-100 goes on after this part waits for 1 waits for 2", "thread, call 100-130 began before this part waits for 2 waits for 3", ""}},
		"work": {[]timeline.Event{testWork(150, 10, timeline.Call{}), testWork(150, 10, timeline.Call{Function: testLaunch, Start: 140, End: 145}), testWork(150, 10, timeline.Call{Function: testLaunch, Start: 40, End: 45}), testWork(180, 30, timeline.Call{Function: testLaunch, Start: 170, End: 175})},
			[3]string{"", "work 150-160, work 150-160, work 150-160 its call is in another part, work 180-200 goes on after this part", "work 200-210 began before this part; its call is in another part"}},
		"spans": {[]timeline.Event{rangeOf("a", 10, 250), rangeOf("b", 20, 30), end(20, 30), rangeOf("c", 90, 150), end(90, 150), end(10, 250)},
			[3]string{"thread, span a 10-100 goes on after this part, span b 20-30, span ends 30, span c 90-100 goes on after this part, span ends 100, span ends 100",
				"thread, span a 100-200 began before this part and goes on after it, span c 100-150 began before this part, span ends 150, span ends 200",
				"thread, span a 200-250 began before this part, span ends 250"}},
		"a span that does not end": {[]timeline.Event{&timeline.SpanBegin{Track: ranges, Span: timeline.Span{Name: "a", Start: 10, Open: true}}, call(20, 30)},
			[3]string{"thread, span a 10-0, call 20-30", "thread, span a 100-0 began before this part", "thread, span a 200-0 began before this part"}},
		"a span whose end is not known when it begins": {[]timeline.Event{&timeline.SpanBegin{Track: ranges, Span: timeline.Span{Name: "a", Start: 10, Open: true}}, call(20, 30),
			&timeline.SpanEnd{Track: ranges, Span: timeline.Span{Start: 10, End: 150, Open: true}, Late: []timeline.Detail{{Text: "facts "}}}},
			[3]string{"thread, span a 10-0, call 20-30, span ends 100 facts goes on after this part", "thread, span a 100-0 began before this part, span ends 150 facts", ""}},
		"instants in a span": {[]timeline.Event{rangeOf("a", 10, 150), &timeline.Instant{Track: ranges, Span: timeline.Span{Start: 120, End: 120}}, end(10, 150)},
			[3]string{"thread, span a 10-100 goes on after this part, span ends 100", "thread, span a 100-150 began before this part, instant 120, span ends 150", ""}},
		"counters": {[]timeline.Event{value(10, 1), value(90, 2), call(150, 160), value(170, 3)},
			[3]string{"counter 10: 1, counter 90: 2", "thread, call 150-160, counter 100: 2, counter 170: 3", ""}},
		"a counter that stays": {[]timeline.Event{value(10, 1), call(250, 260)},
			[3]string{"counter 10: 1", "", "thread, call 250-260, counter 200: 1"}},
		"remarks": {[]timeline.Event{&timeline.Note{Time: 0}, &timeline.Note{Time: 100}, &timeline.Loss{Time: 1000}, &timeline.Allocation{Time: 120}, &timeline.OutOfMemory{Time: 99}},
			[3]string{"note 0, outofmemory", "note 100, allocation", "loss"}},
		"a hang": {[]timeline.Event{&timeline.Hang{Start: 50, End: 150}},
			[3]string{"hang 50-100; goes on after this part", "hang 100-150; began before this part", ""}},
		"threads that end": {[]timeline.Event{call(10, 20), &timeline.ThreadEnd{Thread: thread}}, [3]string{"thread, call 10-20, threadend", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var made [3]recorder
			events := append([]timeline.Event{&timeline.Recording{Start: 5}, &timeline.GPUs{}, process}, c.events...)
			for i, w := range windows {
				s := newClippedSink(&made[i], func() window { return w })
				must.Do(t, errors.Join(s.Take(events[:2]), s.Take(events[2:]), s.End(nil)))
				want := fmt.Sprintf("recording from %d, gpus, process", max(5, w.From))
				if c.want[i] != "" {
					want += ", " + c.want[i]
				}
				goldentest.Same(t, want, strings.Join(made[i].lines, ", "), "window %d", i)
			}
		})
	}
}

// What is described later reaches the sink, whether it has begun or not.
func TestDescribedLater(t *testing.T) {
	t.Parallel()
	for w, want := range map[window]string{
		{0, 100}:              "recording from 0, thread, call 10-20, process, metadata, stream, context",
		{100, timeline.Never}: "recording from 100, process, metadata, stream, context, thread, call 110-120",
	} {
		var made recorder
		s := newClippedSink(&made, func() window { return w })
		for _, e := range []timeline.Event{&timeline.Recording{}, call(10, 20), process, &timeline.Metadata{}, stream, new(timeline.Context), call(110, 120)} {
			must.Do(t, s.Take([]timeline.Event{e}))
		}
		if got := strings.Join(made.lines, ", "); got != want {
			t.Errorf("the window %v has %s, want %s", w, got, want)
		}
	}
}

// A failure of the sink is the timeline's, and one before the end reaches the sink.
func TestFailures(t *testing.T) {
	t.Parallel()
	fails := errors.New("full")
	whole := func() window { return window{To: timeline.Never} }
	if err := newClippedSink(&recorder{fails: fails}, whole).Take([]timeline.Event{&timeline.Recording{}, call(10, 20)}); !errors.Is(err, fails) {
		t.Errorf("the sink fails: %v", err)
	}
	good := new(recorder)
	s := newClippedSink(good, whole)
	if err := errors.Join(s.Take([]timeline.Event{&timeline.Recording{}, call(10, 20)}), s.End(fails)); err != nil || !errors.Is(good.ended, fails) {
		t.Errorf("the end: %v, the sink gets %v", err, good.ended)
	}
}

// A sample that crosses a border is cut there. Every window knows who else used the GPU.
func TestClippedSamples(t *testing.T) {
	t.Parallel()
	set := &timeline.MetricSet{Metrics: []metric.Metric{{Name: "a"}}}
	sample := func(start, end uint64, v float64) timeline.Sample {
		return timeline.Sample{Start: start, End: end, Values: []float64{v}}
	}
	for w, want := range map[window]string{
		{0, 150}:              "user other 0-100=1 100-150=2",
		{150, timeline.Never}: "user other 150-200=2 200-200=3",
	} {
		var made sampleSink
		s := newClippedSink(&made, func() window { return w })
		err := errors.Join(s.Take([]timeline.Event{
			&timeline.Recording{},
			&timeline.GPUUser{Name: "other"},
			&timeline.Samples{Set: set, List: []timeline.Sample{sample(0, 100, 1), sample(100, 200, 2), sample(200, 200, 3)}},
		}), s.End(nil))
		if got := strings.Join(made.got, " "); err != nil || got != want {
			t.Errorf("the window %v has %q, want %q: %v", w, got, want, err)
		}
	}
}

// A sampleSink notes the samples that it is given, and the users of GPUs.
type sampleSink struct{ got []string }

func (s *sampleSink) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Samples:
			for _, x := range e.List {
				s.got = append(s.got, fmt.Sprintf("%d-%d=%g", x.Start, x.End, x.Values[0]))
			}
		case *timeline.GPUUser:
			s.got = append(s.got, "user "+e.Name)
		}
	}
	return nil
}

func (s *sampleSink) End(err error) error { return err }

// The clipped sink knows every kind of event: one that they do not know would be lost. A Known alone is for logs that
// still grow.
func TestAllEvents(t *testing.T) {
	t.Parallel()
	known := []string{"Allocation", "Context", "CounterValue", "GPUUser", "GPUs", "Hang", "Instant", "Known", "Loss", "Metadata", "Note", "OutOfMemory", "Process", "Recording",
		"Samples", "Slices", "SpanBegin", "SpanEnd", "StackSamples", "States", "Stream", "Thread", "ThreadEnd", "TorchBlock", "WorkList"}
	files := must.Get(filepath.Glob("timeline/*.go"))(t)
	var all []string
	for _, path := range files {
		text := must.Get(os.ReadFile(path))(t)
		for _, m := range regexp.MustCompile(`(?m)^func \(\w* ?\*(\w+)\) move\(`).FindAllStringSubmatch(string(text), -1) {
			all = append(all, m[1])
		}
	}
	slices.Sort(all)
	if diff := cmp.Diff(known, all); diff != "" {
		t.Errorf("events (-known +timeline): %s", diff)
	}
}
