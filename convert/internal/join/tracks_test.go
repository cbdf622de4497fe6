package join

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/selection"
	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// An spanEmitter gives events to a collector one by one, and notes each in a few words.
type spanEmitter struct {
	*timelinetest.Collector
	*noted
}

type noted struct {
	events []string
	heard  int // of the events, those that said returned
}

func newSpanEmitter(t *testing.T) (spanEmitter, *timeline.Process) {
	e := spanEmitter{timelinetest.NewCollector(t), &noted{}}
	p := &timeline.Process{PID: 1, Name: "app"}
	e.Emit(&timeline.Recording{})
	e.Emit(p)
	return e, p
}

// newSpanOutput returns an output for spans, whose budget is its own.
func newSpanOutput(e emitter) *spanOutput {
	return &spanOutput{emitter: e, budget: DefaultBudget(), found: new(Found)}
}

func (e spanEmitter) Emit(event timeline.Event) {
	switch event := event.(type) {
	case *timeline.SpanBegin:
		e.note("begin", &event.Span)
	case *timeline.SpanEnd:
		e.note("end", &timeline.Span{Name: fmt.Sprint(event.End), Args: event.LateFacts()})
	case *timeline.Instant:
		e.note("instant", &event.Span)
	}
	if err := e.Take([]timeline.Event{event}); err != nil {
		panic(err)
	}
}

// note notes a span. One that has not ended has dots behind its name.
func (n *noted) note(what string, sp *timeline.Span) {
	words := what + " " + sp.Name
	if sp.Open {
		words += "..."
	}
	for _, d := range sp.Facts() {
		if words += " " + d.Name + "=" + d.Text; d.Text == "" {
			words += fmt.Sprint(d.Value)
		}
	}
	n.events = append(n.events, words)
}

// said is the events since it was called last.
func (n *noted) said() string {
	words := strings.Join(n.events[n.heard:], ", ")
	n.heard = len(n.events)
	return words
}

// text ends the timeline and shows its tracks.
func (e spanEmitter) text() string {
	if err := e.End(nil); err != nil {
		panic(err)
	}
	_, tracks, _ := strings.Cut(timelinetest.Text(e.Timeline()), "\n")
	lines := slices.DeleteFunc(strings.SplitAfter(tracks, "\n"), func(l string) bool { return strings.HasPrefix(l, "process ") })
	return "\n" + strings.Join(lines, "")
}

// spanOf is a span of which only the times matter: they are its name.
func spanOf(start, end uint64) timeline.Span {
	return timeline.Span{Name: fmt.Sprintf("%d-%d", start, end), Start: start, End: end}
}

func TestOverlapLanes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spans [][2]uint64 // equal times: an instant
		lanes string      // what is on each, separated by |
	}{
		"nothing":                   {nil, ""},
		"side by side":              {[][2]uint64{{10, 20}, {20, 30}, {40, 50}}, "10-20 20-30 40-50"},
		"nested":                    {[][2]uint64{{10, 50}, {20, 30}, {30, 50}}, "10-50 20-30 30-50"},
		"overlapping":               {[][2]uint64{{10, 30}, {20, 40}}, "10-30 | 20-40"},
		"begin together":            {[][2]uint64{{10, 20}, {10, 40}, {10, 30}}, "10-40 10-30 10-20"},
		"out of order":              {[][2]uint64{{30, 40}, {10, 20}}, "10-20 30-40"},
		"first lane that has room":  {[][2]uint64{{10, 30}, {20, 40}, {25, 50}, {35, 37}, {41, 60}}, "10-30 35-37 41-60 | 20-40 | 25-50"},
		"instants":                  {[][2]uint64{{10, 30}, {20, 20}, {30, 30}, {40, 40}}, "10-30 20-20 30-30 40-40"},
		"instant beside an overlap": {[][2]uint64{{10, 30}, {20, 40}, {35, 35}}, "10-30 35-35 | 20-40"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, p := newSpanEmitter(t)
			l := newOverlapLanes(newSpanOutput(e), &DefaultBudget().Records, timeline.Track{Process: p, Category: timeline.CUPTI})
			for _, s := range c.spans {
				if s[0] == s[1] {
					l.addInstant(spanOf(s[0], s[1]))
				} else {
					l.addSpan(spanOf(s[0], s[1]))
				}
			}
			l.advance(timeline.Never, true)
			goldentest.Same(t, c.lanes, lanesOf(t, e), "lanes")
		})
	}
}

// lanesOf ends the timeline and returns the spans on each track of the process.
func lanesOf(t *testing.T, e spanEmitter) string {
	t.Helper()
	must.Do(t, e.End(nil))
	var lanes []string
	for _, track := range e.Timeline().Processes[0].Tracks {
		var names []string
		for _, sp := range track.Spans {
			names = append(names, sp.Name)
			if instant := sp.Start == sp.End; sp.Instant != instant {
				t.Errorf("%s: an instant: %t, want %t", sp.Name, sp.Instant, instant)
			}
		}
		lanes = append(lanes, strings.Join(names, " "))
		if track.Category != timeline.CUPTI {
			t.Errorf("a track of category %q", track.Category)
		}
	}
	return strings.Join(lanes, " | ")
}

// Spans are laid once nothing that begins before them can come.
func TestOverlapLanesAdvance(t *testing.T) {
	t.Parallel()
	e, p := newSpanEmitter(t)
	l := newOverlapLanes(newSpanOutput(e), &DefaultBudget().Records, timeline.Track{Process: p})
	step := func(low uint64, all bool, want string, add ...timeline.Span) {
		t.Helper()
		for _, sp := range add {
			l.addSpan(sp)
		}
		l.advance(low, all)
		if got := e.said(); got != want {
			t.Errorf("before %d: %q, want %q", low, got, want)
		}
	}
	step(20, false, "begin 10-50", spanOf(20, 30), spanOf(10, 50))
	step(20, false, "")
	step(21, false, "begin 20-30")
	step(60, false, "end 30, begin 40-50", spanOf(40, 50))
	step(90, false, "end 50, end 50, begin 80-90", spanOf(80, 90))
	step(0, true, "begin 85-88, end 88, end 90", spanOf(85, 88))
	e.text()
}

// What a selection leaves out takes room on its lane, and is not shown.
func TestOverlapLanesSelection(t *testing.T) {
	t.Parallel()
	e, p := newSpanEmitter(t)
	out := newSpanOutput(e)
	out.selection = selection.New(selection.Options{Shortest: 10})
	l := newOverlapLanes(out, &out.budget.Records, timeline.Track{Process: p})
	for _, sp := range []timeline.Span{spanOf(10, 40), spanOf(15, 20), spanOf(18, 30), spanOf(50, 59)} {
		l.addSpan(sp)
	}
	l.addInstant(spanOf(60, 60))
	l.advance(timeline.Never, true)
	if got, want := e.said(), "begin 10-40, begin 18-30, end 40, end 30"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	e.text()
}

// overlappingSpans returns n spans that overlap.
func overlappingSpans(n int, from, to uint64) (list []timeline.Span) {
	for i := range uint64(n) {
		list = append(list, spanOf(from+i, to+i))
	}
	return list
}

// lanesWith returns the tracks that spans are laid on, which come in batches. Those of a
// batch are laid before the next one comes, although they may be later.
func lanesWith(t *testing.T, batches ...[]timeline.Span) []*timelinetest.Track {
	e, p := newSpanEmitter(t)
	l := newOverlapLanes(newSpanOutput(e), &DefaultBudget().Records, timeline.Track{Process: p})
	for _, batch := range batches {
		for _, sp := range batch {
			l.addSpan(sp)
		}
		l.advance(timeline.Never, false)
	}
	l.advance(timeline.Never, true)
	must.Do(t, e.End(nil))
	return e.Timeline().Processes[0].Tracks
}

// A span for which no track is left is cut off where the one around it ends, and says how
// long it was.
func TestOverlapLanesBound(t *testing.T) {
	t.Parallel()
	full := overlappingSpans(maxLanes, 100, 10_000) // the last is 355-10255
	second := overlappingSpans(maxLanes-1, 20_000, 30_000)
	for name, c := range map[string]struct {
		batches [][]timeline.Span
		want    []string // of the last track
	}{
		"crosses the end": {
			[][]timeline.Span{append(full, spanOf(500, 20_000))},
			[]string{"355 to 10255", "  500 to 10255, was 19500"},
		},
		"several": {
			[][]timeline.Span{append(full, spanOf(500, 20_000), spanOf(600, 19_000))},
			[]string{"355 to 10255", "  500 to 10255, was 19500", "    600 to 10255, was 18400"},
		},
		"begins before the others": {
			[][]timeline.Span{full, {spanOf(50, 20_000)}},
			[]string{"355 to 10255", "  355 to 10255, was 19950"},
		},
		"lies before the others": {
			[][]timeline.Span{full, {spanOf(50, 60)}, {spanOf(51, 20_000)}},
			[]string{"355 to 10255", "  355 to 355, was 10", "  355 to 10255, was 19949"},
		},
		"nothing around it": {
			[][]timeline.Span{full, second, {spanOf(15_000, 15_000)}, {spanOf(14_000, 19_000)}},
			[]string{"355 to 10255", "15000 to 15000", "15000 to 19000, was 5000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracks := lanesWith(t, c.batches...)
			if len(tracks) != maxLanes {
				t.Fatalf("%d tracks, want %d", len(tracks), maxLanes)
			}
			var got []string
			for _, sp := range tracks[maxLanes-1].Spans {
				line := strings.Repeat("  ", int(sp.Depth)) + fmt.Sprintf("%d to %d", sp.Start, sp.End)
				for _, d := range sp.Args {
					line += ", " + strings.Replace(d.Name, "true_duration_ns", "was", 1) + fmt.Sprintf(" %d", d.Value)
				}
				got = append(got, line)
			}
			goldentest.Same(t, c.want, got, "the last track")
		})
	}
}

// A cut adds its fact to those that the span has, in a list of its own.
func TestCutKeepsDetails(t *testing.T) {
	t.Parallel()
	details := make([]timeline.Detail, 1, 2)
	details[0] = timeline.Detail{Name: "kind", Text: "own"}
	sp := spanOf(500, 20_000)
	sp.Args = details
	tracks := lanesWith(t, append(overlappingSpans(maxLanes, 100, 10_000), sp))
	want := []timeline.Detail{{Name: "kind", Text: "own"}, {Name: "true_duration_ns", Value: 19_500}}
	goldentest.Same(t, want, tracks[maxLanes-1].Spans[1].Args, "details")
	if spare := details[:2][1]; spare != (timeline.Detail{}) {
		t.Errorf("the caller's list has %+v behind its end", spare)
	}
}
