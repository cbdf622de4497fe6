package join

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// horizon is the time at which the ranges of the tests are cut off.
const horizon = 9000

// heldSpans is the number of spans that the ranges of a test may hold back.
const heldSpans = 1000

// ranges are the NVTX ranges of a process, with all that they hand on.
type ranges struct {
	*nvtxRanges
	spanEmitter
	out *spanOutput
}

func newRanges(t *testing.T) *ranges {
	e, p := newSpanEmitter(t)
	r := &ranges{spanEmitter: e, out: newSpanOutput(e)}
	r.out.budget.Spans.Most = heldSpans
	threads := make(map[uint32]*timeline.Thread)
	r.nvtxRanges = newNVTXRanges(r.out, p, horizon, func(tid uint32) *timeline.Thread {
		if threads[tid] == nil {
			threads[tid] = &timeline.Thread{Process: p, TID: tid}
		}
		return threads[tid]
	})
	return r
}

func (r *ranges) take(markers ...tracelog.Marker) {
	for i := range markers {
		r.marker(&markers[i])
	}
}

func start(tid, id uint32, at uint64, name string) tracelog.Marker {
	return tracelog.Marker{TID: tid, ID: id, Time: at, Name: name, Flags: tracelog.MarkerStart}
}

func end(tid, id uint32, at uint64) tracelog.Marker {
	return tracelog.Marker{TID: tid, ID: id, Time: at, Flags: tracelog.MarkerEnd}
}

func before(m tracelog.Marker) tracelog.Marker {
	m.Flags |= tracelog.MarkerBefore
	return m
}

func mark(tid uint32, at uint64, name string) tracelog.Marker {
	return tracelog.Marker{TID: tid, Time: at, Name: name, Flags: tracelog.MarkerInstant}
}

func inDomain(domain string, markers ...tracelog.Marker) []tracelog.Marker {
	for i := range markers {
		markers[i].Domain = domain
	}
	return markers
}

func TestNVTXRanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		markers []tracelog.Marker
		stats   nvtxStats
		want    string
	}{
		"nested": {
			[]tracelog.Marker{start(1, 1, 100, "outer"), start(1, 2, 200, "inner"), mark(1, 250, "mark"), end(1, 2, 300), end(1, 1, 400)},
			nvtxStats{Ranges: 2, Marks: 1}, `
thread 1/1 ""
track of the thread: nvtx "NVTX"
  100 BEGIN outer
    200 BEGIN inner
      250 INSTANT mark
    300 END
  400 END
`},
		"begun before the recording": {
			[]tracelog.Marker{before(start(1, 1, 100, "epoch")), before(start(1, 2, 101, "step 7")), end(1, 2, 200),
				end(1, 1, 400)},
			nvtxStats{Ranges: 2}, `
thread 1/1 ""
track of the thread: nvtx "NVTX"
  100 BEGIN epoch part=0began before this part
    101 BEGIN step 7 part=0began before this part
    200 END
  400 END
`},
		"one after the other": {
			[]tracelog.Marker{start(1, 1, 100, "first"), end(1, 1, 200), start(1, 2, 200, "second"), end(1, 2, 300)},
			nvtxStats{Ranges: 2}, `
thread 1/1 ""
track of the thread: nvtx "NVTX"
  100 BEGIN first
  200 END
  200 BEGIN second
  300 END
`},
		"begin together": {
			[]tracelog.Marker{start(1, 1, 100, "short"), start(1, 2, 100, "long"), end(1, 1, 200), end(1, 2, 300)},
			nvtxStats{Ranges: 2}, `
thread 1/1 ""
track of the thread: nvtx "NVTX"
  100 BEGIN long
    100 BEGIN short
    200 END
  300 END
`},
		"without length": {
			[]tracelog.Marker{start(1, 1, 100, "empty"), end(1, 1, 100), mark(1, 100, "mark")},
			nvtxStats{Ranges: 1, Marks: 1}, `
thread 1/1 ""
track of the thread: nvtx "NVTX"
  100 BEGIN empty
  100 END
  100 INSTANT mark
`},
		"threads and domains have tracks of their own": {
			slices.Concat(
				[]tracelog.Marker{start(1, 1, 100, "a")}, inDomain("torch", start(1, 2, 150, "b")), []tracelog.Marker{start(2, 3, 160, "c")},
				[]tracelog.Marker{end(1, 1, 170), end(1, 2, 180), end(2, 3, 190)}),
			nvtxStats{Ranges: 3}, `
thread 1/1 ""
track of the thread: nvtx "NVTX"
  100 BEGIN a
  170 END
track of the thread: nvtx "NVTX: torch"
  150 BEGIN b
  180 END
thread 1/2 ""
track of the thread: nvtx "NVTX"
  160 BEGIN c
  190 END
`},
		"crosses the end of the one around it": {
			[]tracelog.Marker{start(1, 1, 100, "outer"), start(1, 2, 200, "crosses"), end(1, 1, 300), end(1, 2, 400)},
			nvtxStats{Ranges: 2}, `
thread 1/1 ""
track of the thread: nvtx "NVTX"
  100 BEGIN outer
  300 END
track of process: nvtx "NVTX"
  200 BEGIN crosses
  400 END
`},
		"ends on another thread": {
			inDomain("rpc", start(1, 1, 100, "request"), end(2, 1, 300)),
			nvtxStats{Ranges: 1}, `
track of process: nvtx "NVTX: rpc"
  100 BEGIN request start_thread=1 end_thread=2
  300 END
`},
		"two at once that end on another thread": {
			[]tracelog.Marker{start(1, 1, 100, "a"), start(1, 2, 200, "b"), end(2, 1, 300), end(2, 2, 400), start(1, 3, 300, "c"), end(2, 3, 350)},
			nvtxStats{Ranges: 3}, `
track of process: nvtx "NVTX"
  100 BEGIN a start_thread=1 end_thread=2
  300 END
  300 BEGIN c start_thread=1 end_thread=2
  350 END
track of process: nvtx "NVTX"
  200 BEGIN b start_thread=1 end_thread=2
  400 END
`},
		"of no thread": {
			[]tracelog.Marker{start(0, 1, 100, "range"), mark(0, 150, "mark"), end(0, 1, 200)},
			nvtxStats{Ranges: 1, Marks: 1}, `
track of process: nvtx "NVTX"
  100 BEGIN range
    150 INSTANT mark
  200 END
`},
		"without a name": {
			[]tracelog.Marker{mark(1, 100, "")},
			nvtxStats{Marks: 1}, `
thread 1/1 ""
track of the thread: nvtx "NVTX"
  100 INSTANT (unnamed)
`},
		"never ends": {
			[]tracelog.Marker{start(1, 1, 100, "outer"), start(1, 2, 200, "inner"), end(1, 2, 300)},
			nvtxStats{Ranges: 2, Unmatched: 1}, `
thread 1/1 ""
track of the thread: nvtx "NVTX"
  100 BEGIN outer unfinished=0had not ended when recording did
    200 BEGIN inner
    300 END
  9000 END
`},
		"begins behind the horizon and never ends": {
			[]tracelog.Marker{start(1, 1, horizon+1, "late")},
			nvtxStats{Ranges: 1, Unmatched: 1}, `
thread 1/1 ""
track of the thread: nvtx "NVTX"
  9001 BEGIN late unfinished=0had not ended when recording did
  9001 END
`},
		"end without a start": {
			[]tracelog.Marker{end(1, 7, 100)},
			nvtxStats{Unmatched: 1}, "\n",
		},
		"number used again before its end": {
			[]tracelog.Marker{start(1, 1, 100, "lost end"), start(1, 1, 200, "again"), end(1, 1, 300), end(1, 1, 400)},
			nvtxStats{Ranges: 2, Unmatched: 2}, `
thread 1/1 ""
track of the thread: nvtx "NVTX"
  100 BEGIN lost end unfinished=0had not ended when recording did
    200 BEGIN again
    300 END
  9000 END
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRanges(t)
			for i := range c.markers {
				r.take(c.markers[i])
				r.advance(false)
			}
			r.finish()
			goldentest.Same(t, c.want, r.text(), "tracks")
			if r.out.found.NVTX != c.stats {
				t.Errorf("counts %+v, want %+v", r.out.found.NVTX, c.stats)
			}
		})
	}
}

// A range that began before the recording is no step: it is not whole.
func TestNVTXStepBegunBefore(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	r.out.steps = pattern.Ranges{Name: "step"}
	r.take(before(start(1, 1, 100, "step 7")), start(1, 2, 200, "step 8"))
	if first, second := r.open[1].of.Step, r.open[2].of.Step; first != nil || second == nil || second.Number != 8 {
		t.Errorf("the steps are %v and %v", first, second)
	}
}

// Of the ranges that fit no thread's track, one is laid once no earlier one of its domain
// can come.
func TestNVTXRangesCrossedAdvance(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	steps := []struct {
		markers []tracelog.Marker
		events  string // that follow at once
	}{
		{[]tracelog.Marker{start(1, 1, 100, "first"), start(2, 2, 150, "second")}, ""},
		{inDomain("d", start(3, 3, 50, "other domain")), ""},
		{[]tracelog.Marker{start(1, 4, 200, "moved"), end(2, 4, 250)}, ""}, // first may move, too
		{[]tracelog.Marker{end(1, 1, 300)}, "begin first"},                 // second still may
		{[]tracelog.Marker{end(1, 2, 400)}, "begin second start_thread=2 end_thread=1, begin moved start_thread=1 end_thread=2"},
		{[]tracelog.Marker{start(1, 5, 500, "next"), end(2, 5, 600)}, "end 250, end 400, begin next start_thread=1 end_thread=2"},
	}
	for i, s := range steps {
		r.take(s.markers...)
		r.advance(false)
		if got := r.said(); got != s.events {
			t.Errorf("step %d: %q, want %q", i, got, s.events)
		}
	}
	r.finish()
	if got, want := r.said(), "begin other domain unfinished=had not ended when recording did, end 600, end 300, end 9000"; got != want {
		t.Errorf("at the end: %q, want %q", got, want)
	}
	r.text()
}

// Tracks of one kind are laid in the order of their domains' names.
func TestNVTXRangesCrossedOrder(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	for i, domain := range []string{"b", "c", "a"} {
		id := uint32(i)
		r.take(inDomain(domain, start(1, id, 100, "in "+domain), end(2, id, 200))...)
	}
	r.finish()
	var begun []string
	for _, e := range r.events {
		if name, ok := strings.CutPrefix(e, "begin "); ok {
			begun = append(begun, name[:len("in a")])
		}
	}
	if want := []string{"in a", "in b", "in c"}; !slices.Equal(begun, want) {
		t.Errorf("%q, want %q", begun, want)
	}
}

// Nothing is forced out before too much is held, nor after that has gone.
func TestNVTXRangesHeld(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	open := func(want bool) {
		t.Helper()
		r.advance(false)
		if got := slices.Contains(r.events, "begin range..."); got != want {
			t.Fatalf("the range is shown before its end: %t, want %t", got, want)
		}
		r.events, r.heard = nil, 0
	}
	r.fill(1, 100)
	r.advance(false) // nothing is open, all is laid
	r.take(start(1, 1, 200, "range"))
	open(false)
	r.fill(1, 300)
	r.take(end(1, 1, 300))
	open(false)
	r.take(start(1, 2, 400, "range"))
	for range heldSpans - 1 {
		r.take(mark(1, 500, "mark"))
	}
	open(false)
	r.take(mark(1, 500, "mark"))
	open(true)
	r.finish()
}

// fill adds as many marks as a program may hold back, so that one more forces them out.
func (r *ranges) fill(tid uint32, at uint64) {
	for range heldSpans {
		r.take(mark(tid, at, "mark"))
	}
}

// When too much waits for the end of a range, the range is shown as what contains all
// that follows.
func TestNVTXRangesForced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after []tracelog.Marker
		stats         nvtxStats
		want          string // the events, without those of the marks
	}{
		"ends later": {
			[]tracelog.Marker{start(1, 1, 100, "outer")}, []tracelog.Marker{start(1, 2, 300, "inner"), end(1, 2, 400), end(1, 1, 500)},
			nvtxStats{Ranges: 2}, "begin outer..., begin inner, end 400, end 500",
		},
		"never ends": {
			[]tracelog.Marker{start(1, 1, 100, "outer")}, nil,
			nvtxStats{Ranges: 1, Unmatched: 1}, "begin outer..., end 9000 unfinished=had not ended when recording did",
		},
		"range inside ends first": {
			[]tracelog.Marker{start(1, 1, 100, "outer"), start(1, 2, 110, "inner")}, []tracelog.Marker{end(1, 2, 400), end(1, 1, 500)},
			nvtxStats{Ranges: 2}, "begin outer..., begin inner..., end 400, end 500",
		},
		"range inside ends last": { // it is cut
			[]tracelog.Marker{start(1, 1, 100, "outer"), start(1, 2, 110, "inner")}, []tracelog.Marker{end(1, 1, 400), end(1, 2, 500)},
			nvtxStats{Ranges: 2}, "begin outer..., begin inner..., end 400, end 400",
		},
		"open and ended ones begin together": { // what has not ended is outside
			[]tracelog.Marker{start(1, 1, 100, "ended"), start(1, 2, 100, "open"), end(1, 1, 120)}, []tracelog.Marker{end(1, 2, 500)},
			nvtxStats{Ranges: 2}, "begin open..., begin ended, end 120, end 500",
		},
		"of no thread": { // it ends with the program
			[]tracelog.Marker{start(0, 1, 100, "outer")}, []tracelog.Marker{end(0, 1, 500)},
			nvtxStats{Ranges: 1}, "begin outer end=not known: shown before it ended, end 9000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRanges(t)
			r.take(c.before...)
			r.fill(1, 200)
			r.advance(false)
			r.take(c.after...)
			r.finish()
			var events []string
			for _, e := range r.events {
				if e != "instant mark" {
					events = append(events, e)
				}
			}
			if got := strings.Join(events, ", "); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			c.stats.Marks = heldSpans
			if r.out.found.NVTX != c.stats {
				t.Errorf("counts %+v, want %+v", r.out.found.NVTX, c.stats)
			}
			r.text() // what was begun has ended
		})
	}
}

// A program has a bound for the ranges that have begun and not ended.
func TestNVTXRangesOpenBound(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	for id := range uint32(maxOpenRanges) {
		r.take(start(1, id, 100, "open"))
	}
	r.take(start(1, maxOpenRanges, 100, "beyond"), end(1, maxOpenRanges, 200))
	if want := (nvtxStats{Unmatched: 2}); r.out.found.NVTX != want {
		t.Errorf("counts %+v, want %+v", r.out.found.NVTX, want)
	}
	if r.out.found.Unopened != 1 {
		t.Errorf("%d ranges are not shown", r.out.found.Unopened)
	}
	r.take(end(1, 0, 200), start(1, maxOpenRanges, 200, "room again"), end(1, maxOpenRanges, 300))
	if want := (nvtxStats{Unmatched: 2, Ranges: 2}); r.out.found.NVTX != want {
		t.Errorf("with room again: counts %+v, want %+v", r.out.found.NVTX, want)
	}
}

// What a selection leaves out has neither a beginning nor an end.
func TestNVTXRangesSelection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		name     string
		shortest uint64
		want     string
	}{
		"all":      {"", 0, "begin long..., begin short..., end 210, begin brief, end 260, end 900"},
		"by name":  {"short", 0, "begin short..., end 210"},
		"duration": {"", 100, "begin long..., begin short..., end 210, end 900"}, // the end of short was not known
		"both":     {"long", 100, "begin long..., end 900"},
		"none":     {"other", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRanges(t)
			r.out.selection = selection.New(selection.Options{Name: c.name, Shortest: c.shortest})
			r.take(start(1, 1, 100, "long"), start(1, 2, 200, "short"))
			r.fill(0, 205)
			r.advance(false)
			r.take(end(1, 2, 210), start(1, 3, 250, "brief"), end(1, 3, 260), end(1, 1, 900))
			r.finish()
			events := slices.DeleteFunc(r.events, func(e string) bool { return e == "instant mark" })
			if got := strings.Join(events, ", "); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			r.text()
		})
	}
}

func TestMarkerBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b tracelog.Marker
		want bool
	}{
		"earlier":            {start(1, 1, 10, ""), start(1, 2, 20, ""), true},
		"later":              {start(1, 1, 20, ""), start(1, 2, 10, ""), false},
		"start before end":   {start(1, 1, 10, ""), end(1, 2, 10), true},
		"end after start":    {end(1, 2, 10), start(1, 1, 10, ""), false},
		"end after mark":     {end(1, 2, 10), mark(1, 10, ""), false},
		"two starts":         {start(1, 1, 10, ""), start(1, 2, 10, ""), true},
		"two starts, turned": {start(1, 2, 10, ""), start(1, 1, 10, ""), false},
		"one start":          {start(1, 1, 10, ""), start(1, 1, 10, ""), false},
		"start and mark":     {start(1, 2, 10, ""), mark(1, 10, ""), false},
		"earlier end":        {end(1, 1, 9), start(1, 2, 10, ""), true},
		"start behind a end": {start(1, 2, 10, ""), end(1, 1, 9), false},
	} {
		if got := markerBefore(&c.a, &c.b); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// names names the ranges of a stack, the outermost one first.
func names(stack *timeline.RangeStack) string {
	list := []string{}
	for _, s := range stack.Path(nil) {
		list = append(list, s.Name)
	}
	return fmt.Sprint(list)
}

func TestRangesAt(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	r.take(start(1, 1, 100, "outer"), start(2, 2, 110, "other thread"), start(1, 3, 200, "inner"), mark(1, 250, "mark"))
	r.take(inDomain("d", start(1, 4, 300, "crossing"))...)
	r.take(end(1, 3, 400), end(2, 4, 500), end(1, 99, 510), start(0, 5, 520, "no thread"), start(1, 6, 530, "again"), end(1, 1, 600))
	r.take(start(1, 6, 610, "number used twice"))
	r.until = 700
	for _, c := range []struct {
		tid   uint32
		at    uint64
		want  string
		known bool
	}{
		{1, 99, "[]", true},
		{1, 100, "[outer]", true},
		{1, 199, "[outer]", true},
		{1, 200, "[outer inner]", true},
		{1, 260, "[outer inner]", true},
		{1, 350, "[outer inner crossing]", true},
		{1, 400, "[outer crossing]", true},
		{1, 500, "[outer]", true}, // ended on another thread
		{2, 200, "[other thread]", true},
		{3, 200, "[]", true},
		{3, 700, "[]", false},
		{1, 599, "[outer again]", true},
		{1, 600, "[again]", true},
		{1, 650, "[number used twice]", true},
		{1, 600, "[]", false}, // passed
		{1, 700, "[]", false}, // not known yet
	} {
		stack, known := r.at(c.tid, c.at)
		if got := names(stack); got != c.want || known != c.known {
			t.Errorf("thread %d at %d: %s, %t; want %s, %t", c.tid, c.at, got, known, c.want, c.known)
		}
	}
}

// A range knows its length once it has ended.
func TestRangeDuration(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	r.take(start(1, 1, 100, "range"), start(1, 2, 110, "empty"), end(1, 2, 110))
	r.until = timeline.Never
	stack, _ := r.at(1, 105)
	if dur, known := stack.Duration(); known {
		t.Errorf("a range without an end took %d ns", dur)
	}
	inner, _ := r.at(1, 110)
	r.take(end(1, 1, 140))
	if dur, known := stack.Duration(); dur != 40 || !known {
		t.Errorf("it took %d ns, %t", dur, known)
	}
	if inner.Range != stack.Range {
		t.Error("an empty range is open at its end")
	}
}

// Changes that no call asks for are passed.
func TestRangeChangesArePassed(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	for i := range uint32(1000) {
		at := uint64(10 * i)
		r.take(start(1+i%2, i, at, "r"), end(1+i%2, i, at+5))
		r.until = at
		r.passed(func(uint32) uint64 { return at })
		if r.waiting > 2 {
			t.Fatalf("%d changes are held", r.waiting)
		}
	}
	if kept := len(r.threads[1].changes); kept > 8 {
		t.Errorf("%d changes are in memory", kept)
	}
}

// Few changes are held back, even if calls lag far behind.
func TestRangeChangesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	const bound, last = 1000, 600
	r.out.budget.Records.Most = bound
	for i := range uint32(last) {
		r.take(start(1+i%2, i, uint64(10*i), "r"), end(1+i%2, i, uint64(10*i+5)))
		if r.relieve(); r.waiting > bound+1 {
			t.Fatalf("%d changes are held", r.waiting)
		}
	}
	r.until = timeline.Never
	if _, known := r.at(1, 10); known {
		t.Error("the ranges of a call of long ago are known")
	}
	if stack, known := r.at(1, 10*(last-2)+1); !known || names(stack) != "[r]" {
		t.Errorf("the latest ranges are %s, %t", names(stack), known)
	}
}

// Ranges that are nested too deeply have tracks, but no work.
func TestRangeDepthIsBounded(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	for i := range uint32(2 * maxDepth) {
		r.take(start(1, i, uint64(i), "r"))
	}
	r.until = timeline.Never
	depth := func(at uint64) int {
		stack, _ := r.at(1, at)
		return len(stack.Path(nil))
	}
	if d := depth(1000); d != maxDepth {
		t.Errorf("%d ranges are around a call", d)
	}
	for i := range uint32(2*maxDepth - 1) {
		r.take(end(1, 2*maxDepth-1-i, uint64(2000+i)))
	}
	if d := depth(5000); d != 1 {
		t.Errorf("%d ranges are left", d)
	}
	r.take(tracelog.Marker{TID: 1, ID: 0, Time: 6000, Flags: tracelog.MarkerEnd})
	if d := depth(7000); d != 0 {
		t.Errorf("%d ranges are left at the end", d)
	}
}
