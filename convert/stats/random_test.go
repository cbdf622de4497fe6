package stats_test

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
)

// A world makes events of every kind with few different things, in no order.
type world struct {
	*rand.Rand
	processes []*timeline.Process
	threads   []*timeline.Thread
	streams   []*timeline.Stream
	functions []*timeline.Function
	shapes    []*timeline.Shape
	tracks    []*timeline.Track
	open      map[*timeline.Track][]timeline.Span
	callers   []*timeline.Caller
	pythons   []*timeline.Python
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 7)), open: make(map[*timeline.Track][]timeline.Span)}
	for i := range uint32(3) {
		p := &timeline.Process{PID: i, Name: pick(w, "", "app", "a\x1b[31m"), Host: pick(w, "", "node")}
		w.processes = append(w.processes, p)
		w.threads = append(w.threads, &timeline.Thread{Process: p, TID: i, Main: i == 0}, &timeline.Thread{Process: p, TID: i + 10, Name: "worker"})
		c := &timeline.Context{Process: p, GPU: i % 2}
		w.streams = append(w.streams, &timeline.Stream{Context: c, ID: i, Default: true}, &timeline.Stream{Context: c, ID: i + 7, Name: "s"})
		w.tracks = append(w.tracks, &timeline.Track{Process: p, Category: timeline.NVTX}, &timeline.Track{Process: p, Domain: "d", Category: timeline.NVTX},
			&timeline.Track{Process: p, Category: timeline.Memory})
		w.functions = append(w.functions, &timeline.Function{Name: "f", Library: pick(w, "runtime", "driver", ""), ID: i})
		w.shapes = append(w.shapes, &timeline.Shape{
			Kernel: timeline.KernelShape{Name: pick(w, "", "k", "_Z1kv", "other", "Zażółć|`")}, Memcpy: timeline.MemcpyShape{Bytes: w.number(), CopyKind: i, SrcKind: 99},
			Memset: timeline.MemsetShape{Bytes: w.number()}})
		w.callers = append(w.callers, nil, &timeline.Caller{Module: "/lib/x.so", Symbol: pick(w, "", "_Z1fv"), ID: i + 1})
		frame := &timeline.PythonFrame{File: pick(w, "", "/a.py", "/usr/lib/python3.12/x.py"), Function: pick(w, "f", "other", "a;b\n"), Line: i}
		python := &timeline.Python{PythonFrame: frame, ID: i + 1}
		if i > 0 {
			python.Parent = w.pythons[1]
		}
		w.pythons = append(w.pythons, nil, python)
	}
	return w
}

func pick[T any](w *world, list ...T) T { return list[w.IntN(len(list))] }

// number is mostly small, now and then at the end of its range.
func (w *world) number() uint64 {
	if w.IntN(30) == 0 {
		return math.MaxUint64 - uint64(w.IntN(2))
	}
	return uint64(w.IntN(1000))
}

func (w *world) event() timeline.Event {
	switch w.IntN(12) {
	case 0:
		return pick(w, w.processes...)
	case 1:
		return pick[timeline.Event](w, pick(w, w.threads...), pick(w, w.streams...), &timeline.ThreadEnd{Thread: w.threads[0]}, &timeline.Note{}, &timeline.Loss{})
	case 2, 3, 4:
		return w.slices()
	case 5, 6, 7:
		return w.work()
	case 8:
		track := pick(w, w.tracks...)
		sp := timeline.Span{Name: pick(w, "r", "", "q"), Start: w.number(), End: w.number(), Depth: int32(len(w.open[track])), Flags: pick(w, 0, 0, 0, uint16(timeline.Unfinished))}
		sp.Ranges = &timeline.RangeStack{Range: &timeline.Range{Name: sp.Name, Domain: track.Domain, Thread: w.threads[0]}}
		w.open[track] = append(w.open[track], sp)
		return &timeline.SpanBegin{Track: track, Span: sp}
	case 9:
		track := pick(w, w.tracks...)
		if last := len(w.open[track]) - 1; last >= 0 {
			sp := w.open[track][last]
			w.open[track] = w.open[track][:last]
			return &timeline.SpanEnd{Track: track, Span: sp}
		}
		fallthrough
	case 10:
		return &timeline.Instant{Track: pick(w, w.tracks...), Span: timeline.Span{Name: "mark"}}
	}
	call := timeline.Call{Function: w.functions[0], Thread: pick(w, w.threads...), Caller: pick(w, w.callers...), Python: pick(w, w.pythons...)}
	return &timeline.Allocation{Process: pick(w, w.processes...), Time: w.number(), Address: w.Uint64N(5), Bytes: w.number(), GPU: w.Uint32N(2),
		Kind: w.Uint32N(8), Release: w.IntN(2) == 0, Call: pick(w, timeline.Call{}, call)}
}

func (w *world) slices() timeline.Event {
	e := &timeline.Slices{Thread: pick(w, w.threads...)}
	for range w.IntN(4) {
		start := w.number()
		sl := timeline.Slice{Function: pick(w, w.functions...), Arguments: new(timeline.Arguments), Start: start, End: timeline.End(start, w.number()),
			Caller: pick(w, w.callers...), Python: pick(w, w.pythons...), Ret: int32(w.IntN(3)), Flags: uint16(w.IntN(4))}
		for range w.IntN(3) {
			at := w.number()
			sl.AddWait(timeline.Awaited{Work: 1, Stream: pick(w, w.streams...), Start: at, End: timeline.End(at, w.number())})
		}
		e.List = append(e.List, sl)
	}
	return e
}

func (w *world) work() timeline.Event {
	e := &timeline.WorkList{Stream: pick(w, w.streams...)}
	for range w.IntN(5) {
		x := timeline.Work{ID: 1, Start: w.number(), Dur: w.number(), Shape: pick(w, w.shapes...), Kind: timeline.WorkKind(w.IntN(3)), Graph: w.Uint32N(2), Untimed: w.IntN(9) == 0}
		if w.IntN(2) == 0 {
			at := w.number()
			x.Call = timeline.Call{Function: pick(w, w.functions...), Thread: pick(w, w.threads...), Python: pick(w, w.pythons...), Start: at, End: timeline.End(at, w.number())}
		}
		e.List = append(e.List, x)
	}
	return e
}

// write writes all forms of all reports.
func write(t testing.TB, s *stats.Sink) {
	t.Helper()
	for _, width := range []int{1, 40, 80, 300} {
		must.Do(t, table.WriteText(io.Discard, s.Tables(stats.Facts{}), width))
	}
	tables := s.Tables(stats.Facts{})
	for _, r := range tables {
		r.Sort("median_ns")
		r.Top(3)
	}
	must.Do(t, table.WriteMarkdown(io.Discard, tables))
	for _, r := range tables {
		must.Do(t, r.WriteCSV(io.Discard))
	}
	checkJSON(t, tables)
	for _, name := range stats.Folds() {
		if f := stats.ByName(name).Folded(s, stats.Facts{Startup: true}); f != nil {
			must.Do(t, f.Write(io.Discard))
		}
	}
}

// Events that make no sense together still make tables, and JSON that is valid.
func TestChaos(t *testing.T) {
	t.Parallel()
	for seed := range logtest.Seeds(300, 3) { // few events and many
		w, s := newWorld(seed), stats.New()
		must.Do(t, s.Take([]timeline.Event{&timeline.Recording{Start: w.number()}, &timeline.GPUs{List: []timeline.GPU{{Name: "G"}}}}))
		if seed%2 == 0 {
			s.Fold()
		}
		for range 5 + seed {
			must.Do(t, s.Take([]timeline.Event{w.event()}))
		}
		must.Do(t, s.End(nil))
		write(t, s)
	}
}

// exactCover is the time that intervals cover, counted moment by moment.
func exactCover(list []timeline.Work, take func(timeline.WorkKind) bool) (n uint64) {
	at := make(map[uint64]bool)
	for _, w := range list {
		for t := w.Start; take(w.Kind) && t < w.Start+w.Dur; t++ {
			at[t] = true
		}
	}
	return uint64(len(at))
}

// Busy times are exact whatever the order in which streams bring their work.
func TestBusy(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		w, s := newWorld(seed), stats.New()
		shape, process := new(timeline.Shape), new(timeline.Process)
		c := &timeline.Context{Process: process, GPU: 3}
		var all []timeline.Work
		for id := range uint32(4) {
			var list []timeline.Work
			for range w.IntN(30) {
				list = append(list, timeline.Work{Start: w.Uint64N(500), Dur: w.Uint64N(20), Kind: timeline.WorkKind(w.IntN(3)), Shape: shape})
			}
			slices.SortFunc(list, func(a, b timeline.Work) int { return cmp.Compare(a.Start, b.Start) })
			all = append(all, list...)
			must.Do(t, s.Take([]timeline.Event{&timeline.WorkList{Stream: &timeline.Stream{Context: c, ID: id}, List: list}}))
		}
		if len(all) == 0 {
			continue
		}
		isCopy := func(k timeline.WorkKind) bool { return k == timeline.MemcpyWork }
		isCompute := func(k timeline.WorkKind) bool { return k == timeline.KernelWork }
		either := exactCover(all, func(k timeline.WorkKind) bool { return k != timeline.MemsetWork })
		copies, compute := exactCover(all, isCopy), exactCover(all, isCompute)
		r := byName(s, stats.Facts{Startup: true})["devices"]
		for key, want := range map[string]uint64{"busy_ns": exactCover(all, func(timeline.WorkKind) bool { return true }),
			"copy_ns": copies, "compute_ns": compute, "overlap_ns": copies + compute - either} {
			if got := r.Rows[0].Cells[r.Column(key)]; got != want {
				t.Errorf("seed %d: %s is %v, want %d", seed, key, got, want)
			}
		}
	}
}

// Work that comes too late to be put in order makes busy times unknown, not wrong.
func TestBusyUnknown(t *testing.T) {
	t.Parallel()
	s, shape := stats.New(), new(timeline.Shape)
	stream := &timeline.Stream{Context: &timeline.Context{Process: new(timeline.Process)}}
	add := func(start uint64) {
		t.Helper()
		must.Do(t, s.Take([]timeline.Event{&timeline.WorkList{Stream: stream, List: []timeline.Work{{Start: start, Dur: 1, Shape: shape}}}}))
	}
	for i := range uint64(200_000) {
		add(1000 + 2*i)
	}
	tell := func() (busy any, notes int) {
		r := byName(s, stats.Facts{Startup: true})["devices"]
		return r.Rows[0].Cells[r.Column("busy_ns")], len(r.Notes)
	}
	if busy, notes := tell(); busy != uint64(200_000) || notes != 0 {
		t.Errorf("busy for %v with %d notes", busy, notes)
	}
	add(0)
	if busy, notes := tell(); busy != nil || notes != 1 {
		t.Errorf("busy for %v with %d notes after work that came too late", busy, notes)
	}
}

// Memory does not grow with the number of events.
func TestBounded(t *testing.T) {
	var log bytes.Buffer
	logtest.WriteCalledLaunches(t, &log, 20_000)
	s := stats.New()
	run := func() {
		must.Get(convert.Timeline([]convert.Log{{Name: "log", Open: logtest.InMemory(log.Bytes())}}, convert.Options{}, s))(t)
	}
	run()
	shape, process := new(timeline.Shape), new(timeline.Process)
	stream := &timeline.Stream{Context: &timeline.Context{Process: process, GPU: 1}}
	thread, f := &timeline.Thread{Process: process}, &timeline.Function{Name: "f"}
	work := &timeline.WorkList{Stream: stream, List: make([]timeline.Work, 1)}
	call := &timeline.Slices{Thread: thread, List: make([]timeline.Slice, 1)}
	events := []timeline.Event{work, call}
	at := uint64(0)
	event := func() {
		at += 10
		work.List[0] = timeline.Work{Start: at, Dur: 5, Shape: shape, Call: timeline.Call{Function: f, Thread: thread, Start: at - 5, End: at}}
		call.List[0] = timeline.Slice{Function: f, Start: at, End: at + 5}
		must.Do(t, s.Take(events))
	}
	for range 200_000 { // until the windows are full
		event()
	}
	if n := testing.AllocsPerRun(200_000, event); n != 0 {
		t.Errorf("%g allocations an event", n)
	}
}
