package report

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A Timeline is a sink that keeps the calls, the GPU work and the ranges of some moments, for the timeline of the page.
type Timeline struct {
	moments []moment
	windows []*window
	most    int // slices of a window; of all together twice as many

	start   uint64
	kept    int // slices of all windows
	rows    map[rowKey]int
	list    []rowKey
	names   interned[nameKey]
	details interned[detailKey]
	kernels timeline.KernelNames
	parts   map[partKey]timeline.Part
}

// A window is a time whose slices are kept, ns from the start of the recording.
type window struct {
	from, to uint64
	focus    uint64 // what is kept if there is too much
	rank     int    // of its moment
	slices   map[int][]slice
	kept     int
	full     bool // it was cut
}

// A slice is a call, a piece of work, a range. Numbers of names and details are those of the timeline.
type slice struct {
	start, end   uint64
	name, detail uint32
	call         callKey // that a call is, or by which GPU work was launched; the zero one for none
}

// A rowKey is a row: what a thread or a stream did, of a kind, at a depth.
type rowKey struct {
	thread *timeline.Thread
	stream *timeline.Stream
	kind   rowKind
	depth  int32
}

// A rowKind is a kind of row.
type rowKind uint8

// The kinds of row, in their order within a process.
const (
	rangeRow rowKind = iota // NVTX ranges of a thread
	lineRow                 // Python lines of its calls
	callRow
	stateRow // what it was blocked on
	workRow
)

var rowKinds = [...]string{rangeRow: "range", lineRow: "line", callRow: "call", stateRow: "state", workRow: "work"}

// workClasses are the colours of the classes of GPU work.
var workClasses = [...]string{
	activity.Compute: "compute", activity.Communication: "comm", activity.Copy: "copy", activity.Set: "set",
}

// mostDepth bounds the rows of a thread of one kind.
const mostDepth = 6

type nameKey struct{ text, short, class string } // short is "" for kernels, whose short names come later

// A detailKey is what a slice says beside its name.
type detailKey struct {
	shape  *timeline.Shape
	python *timeline.Python
	caller *timeline.Caller
	note   string
}

type callKey struct {
	thread *timeline.Thread
	start  uint64
}

// interned numbers values from 0 on.
type interned[K comparable] struct {
	of   map[K]uint32
	list []K
}

func (n *interned[K]) number(k K) uint32 {
	i, known := n.of[k]
	if !known {
		if n.of == nil {
			n.of = make(map[K]uint32)
		}
		i = uint32(len(n.list))
		n.of[k], n.list = i, append(n.list, k)
	}
	return i
}

// sliceBytes is what a slice takes in a page, at least.
const sliceBytes = 9

// NewTimeline returns a timeline without events, of the moments that a page of so many bytes has room for.
func (r *Report) NewTimeline(bytes int) *Timeline { return r.timelineOf(bytes, r.moments(bytes)) }

// NewStep returns a timeline without events, of the typical step alone: to stand beside another one.
func (r *Report) NewStep(bytes int) *Timeline { return r.timelineOf(bytes, r.moments(bytes)[:1]) }

func (r *Report) timelineOf(bytes int, moments []moment) *Timeline {
	t := &Timeline{moments: moments, windows: windows(moments), most: max(bytes/sliceBytes/2, 1000),
		rows: make(map[rowKey]int), kernels: make(timeline.KernelNames), parts: r.Overview.parts}
	t.details.number(detailKey{})
	for _, w := range t.windows {
		w.slices = make(map[int][]slice)
	}
	return t
}

// Times are the times that the timeline wants, ns from the start of the recording.
func (t *Timeline) Times() (list [][2]uint64) {
	for _, w := range t.windows {
		list = append(list, [2]uint64{w.from, w.to})
	}
	return list
}

// Take takes events.
func (t *Timeline) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Recording:
			t.start = e.Start
		case *timeline.Slices:
			for i := range e.List {
				t.call(e.Thread, &e.List[i])
			}
		case *timeline.WorkList:
			for i := range e.List {
				t.work(e.Stream, &e.List[i])
			}
		case *timeline.States:
			for i := range e.List {
				t.state(e.Thread, &e.List[i])
			}
		case *timeline.SpanEnd:
			if of := e.Track; of.Category == timeline.NVTX && of.Thread != nil && of.Domain != timeline.NCCLDomain {
				t.add(rowKey{thread: of.Thread, kind: rangeRow, depth: e.Depth}, e.Start, e.End, func() slice {
					return slice{name: t.name(e.Name, "range")}
				})
			}
		}
	}
	return nil
}

// End ends the timeline.
func (t *Timeline) End(error) error { return nil }

func (t *Timeline) name(text, class string) uint32 {
	return t.names.number(nameKey{text: text, class: class})
}

func (t *Timeline) call(thread *timeline.Thread, sl *timeline.Slice) {
	t.add(rowKey{thread: thread, kind: callRow, depth: sl.Depth}, sl.Start, sl.End, func() slice {
		class := "call"
		if len(sl.Waits()) > 0 || sl.Wait != cudaapi.NoWait {
			class = "wait"
		}
		_, note := sl.Ending()
		s := slice{name: t.name(sl.Name, class), detail: t.details.number(detailKey{nil, sl.Python, sl.Caller, note})}
		if sl.HasWork() {
			s.call = callKey{thread, sl.Start}
		}
		return s
	})
	if sl.Depth == 0 && sl.Python != nil {
		t.add(rowKey{thread: thread, kind: lineRow}, sl.Start, sl.End, func() slice {
			own := sl.Python.Own()
			name := t.names.number(nameKey{own.Text(), own.Short(), "py"})
			return slice{name: name, detail: t.details.number(detailKey{python: sl.Python})}
		})
	}
}

func (t *Timeline) work(stream *timeline.Stream, w *timeline.Work) {
	t.add(rowKey{stream: stream, kind: workRow}, w.Start, timeline.End(w.Start, w.Dur), func() slice {
		note := ""
		if p, known := t.parts[keyOf(stream, w)]; known {
			note = fmt.Sprintf("%s %d: waited %s for %s", p.Operation, p.Number, figures.Duration(p.Waited), p.Last)
		}
		s := slice{name: t.name(t.kernels.Title(w), workClasses[activity.ClassOf(w)]),
			detail: t.details.number(detailKey{w.Shape, w.Call.Python, nil, note})}
		if w.Call.Function != nil {
			s.call = callKey{w.Call.Thread, w.Call.Start}
		}
		return s
	})
}

// state takes a state of a thread. Short ones are left out: a thread is blocked in most calls that wait.
func (t *Timeline) state(thread *timeline.Thread, s *timeline.State) {
	if s.ThreadState != timeline.Blocked || s.End-s.Start < shortMoment {
		return
	}
	t.add(rowKey{thread: thread, kind: stateRow}, s.Start, s.End, func() slice {
		text, key := "blocked", detailKey{}
		if s.Why != nil {
			text, key.python = s.Why.Text(), s.Why.Python
		}
		return slice{name: t.name(text, "idle"), detail: t.details.number(key)}
	})
}

// add adds a slice to the windows that it is in.
func (t *Timeline) add(key rowKey, start, end uint64, make func() slice) {
	start, end = start-min(start, t.start), end-min(end, t.start)
	i := sort.Search(len(t.windows), func(i int) bool { return t.windows[i].to > start })
	var s slice
	for row := -1; i < len(t.windows) && t.windows[i].from <= end; i++ {
		w := t.windows[i]
		if row < 0 {
			if key.depth >= mostDepth {
				return
			}
			s = make()
			s.start, s.end = start, end
			row = t.row(key)
		}
		list := w.slices[row]
		if n := len(list); key.kind == lineRow && n > 0 && list[n-1].name == s.name {
			list[n-1].end = max(end, list[n-1].end) // the line goes on
			continue
		}
		w.slices[row] = append(list, s)
		w.kept, t.kept = w.kept+1, t.kept+1
		for w.kept > t.most && w.to-w.from > 1 {
			t.kept -= w.kept
			w.shrink()
			t.kept += w.kept
		}
	}
	for t.kept > 2*t.most {
		t.drop()
	}
}

func (t *Timeline) row(key rowKey) int {
	i, known := t.rows[key]
	if !known {
		i = len(t.list)
		t.rows[key], t.list = i, append(t.list, key)
	}
	return i
}

// shrink halves the time of a window.
func (w *window) shrink() {
	w.from, w.to, w.full = w.focus-(w.focus-w.from)/2, w.focus+(w.to-w.focus)/2, true
	w.kept = 0
	for row, list := range w.slices {
		list = slices.DeleteFunc(list, func(s slice) bool { return s.end < w.from || s.start >= w.to })
		w.slices[row] = list
		w.kept += len(list)
	}
}

// drop drops the least important window that has something.
func (t *Timeline) drop() {
	w := slices.MaxFunc(t.windows, func(a, b *window) int {
		return cmp.Or(cmp.Compare(min(a.kept, 1), min(b.kept, 1)), cmp.Compare(a.rank, b.rank))
	})
	t.kept -= w.kept
	t.windows = slices.DeleteFunc(t.windows, func(o *window) bool { return o == w })
}
