package pfsink

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// encoded returns the trace of events.
func encoded(t testing.TB, lists ...[]timeline.Event) []byte {
	t.Helper()
	var out bytes.Buffer
	s := New(&out, Options{})
	for _, events := range lists {
		must.Do(t, s.Take(events))
	}
	must.Do(t, s.End(nil))
	return out.Bytes()
}

// A program of tests, with one of each thing that events name.
var (
	recording = &timeline.Recording{Monotonic: 1000, Realtime: 1_700_000_000_000_000_000, Boottime: 1500, Start: 100, Processes: 1}
	process   = &timeline.Process{PID: 10, PPID: 1, Name: "app", Args: []string{"app", "-v"}, Host: "node", Start: 90}
	mainTID   = &timeline.Thread{Process: process, TID: 10, Main: true}
	worker    = &timeline.Thread{Process: process, TID: 11, Name: "worker"}
	context   = &timeline.Context{Process: process, GPU: 1, Device: 3, ID: 2, Name: "ctx"}
	stream    = &timeline.Stream{Context: context, ID: 7, Default: true, Priority: -5}
	copies    = &timeline.Stream{Context: context, ID: 13, Name: "copies"}
	launch    = &timeline.Function{Name: "cuLaunchKernel", Library: "driver", ID: 1, Params: []timeline.Param{{Name: "f", Type: "handle"}, {Name: "gridX", Type: "u32"}}}
	synchro   = &timeline.Function{Name: "cudaStreamSynchronize", Library: "runtime", ID: 2}
	noArgs    = &timeline.Arguments{}
)

// call returns a call with arguments that are a list of their own.
func call(f *timeline.Function, start, end uint64, depth int32, args ...uint64) timeline.Slice {
	sl := timeline.Slice{Function: f, Arguments: noArgs, Start: start, End: end, Depth: depth}
	if len(args) > 0 {
		sl.Arguments = &timeline.Arguments{Args: args, ID: 1 + args[0]}
	}
	return sl
}

// with changes a slice.
func with(sl timeline.Slice, change func(sl *timeline.Slice)) timeline.Slice {
	change(&sl)
	return sl
}

func callsOf(thread *timeline.Thread, list ...timeline.Slice) *timeline.Slices {
	return &timeline.Slices{Thread: thread, List: list}
}

func callEvents() []timeline.Event {
	return []timeline.Event{
		recording, process, mainTID,
		callsOf(mainTID,
			call(launch, 100, 200, 0, 9, 4),
			call(synchro, 110, 150, 1),
			with(call(launch, 200, 300, 0, 9, 4), func(sl *timeline.Slice) { sl.AddWork(5); sl.Correlation, sl.Stream = 5, copies }),
			with(call(launch, 300, 310, 0, 9, 4), func(sl *timeline.Slice) { sl.Kernel = &timeline.Kernel{Name: "_Z1av"} }),
			with(call(launch, 310, 320, 0, 9, 4), func(sl *timeline.Slice) { sl.Ret = 1 }),
			with(call(launch, 320, 330, 0, 9, 4), func(sl *timeline.Slice) { sl.Flags = timeline.NoReturn })),
		callsOf(worker,
			with(call(synchro, 400, 500, 0), func(sl *timeline.Slice) {
				sl.AddWork(6)
				sl.AddWork(7)
				sl.AddWait(timeline.Awaited{Work: 5})
				sl.AddWait(timeline.Awaited{Work: 6})
				sl.Correlation = 8
			})),
		&timeline.ThreadEnd{Thread: mainTID},
		callsOf(worker, with(call(synchro, 500, 510, 0), func(sl *timeline.Slice) { sl.AddWait(timeline.Awaited{Work: 7}) })),
		callsOf(worker, with(call(synchro, 600, 900, 0), func(sl *timeline.Slice) { sl.Flags = timeline.Unfinished })),
		&timeline.ThreadEnd{Thread: worker},
	}
}

// work returns a piece of work.
func work(id, start, dur uint64, kind timeline.WorkKind, shape *timeline.Shape) timeline.Work {
	return timeline.Work{ID: id, Start: start, Dur: dur, Kind: kind, Shape: shape, Correlation: uint32(id)}
}

func workEvents() []timeline.Event {
	axpy := timeline.KernelShape{Name: "_Z4axpyfPfS_", Grid: [3]uint32{4, 2, 1}, Block: [3]uint32{128, 1, 1},
		StaticShared: 16, DynamicShared: 32, LocalPerThread: 48, Registers: 24}
	larger := axpy
	larger.Grid[0], larger.DynamicShared, larger.Cluster = 8, 0, [3]uint32{2, 1, 1}
	recompiled := axpy
	recompiled.Registers = 40
	node := work(6, 700, 10, timeline.KernelWork, &timeline.Shape{Kernel: axpy, ID: 1})
	node.Graph, node.GraphNode = 3, 1<<32+1
	untimed := work(8, 900, 0, timeline.KernelWork, &timeline.Shape{Kernel: axpy, ID: 1})
	untimed.Untimed = true
	first := &timeline.Shape{Kernel: axpy, ID: 1}
	return []timeline.Event{
		recording,
		&timeline.GPUs{List: []timeline.GPU{
			{Index: 0, Name: "NVIDIA H200", UUID: "00112233445566778899aabbccddeeff", Major: 9, Minor: 0, Multiprocessors: 132, Memory: 150 << 30},
			{Index: 1, Name: "Other", UUID: "no UUID"},
		}},
		process,
		&timeline.WorkList{Stream: stream, List: []timeline.Work{
			work(1, 200, 50, timeline.KernelWork, first),
			work(2, 300, 50, timeline.KernelWork, &timeline.Shape{Kernel: larger, ID: 2}),
		}},
		&timeline.WorkList{Stream: copies, List: []timeline.Work{
			work(3, 400, 3, timeline.MemcpyWork, &timeline.Shape{Memcpy: timeline.MemcpyShape{Bytes: 1000, CopyKind: 1, SrcKind: 1, DstKind: 3}, ID: 3}),
			work(4, 500, 0, timeline.MemcpyWork, &timeline.Shape{Memcpy: timeline.MemcpyShape{Bytes: 8, CopyKind: 10, SrcKind: 3, DstKind: 3, SrcDevice: 1, DstDevice: 2}, ID: 4}),
			work(5, 600, 100, timeline.MemsetWork, &timeline.Shape{Memset: timeline.MemsetShape{Bytes: 400, Value: 255}, ID: 6}),
		}},
		&timeline.WorkList{Stream: stream, List: []timeline.Work{node, untimed,
			work(9, 950, 1, timeline.KernelWork, &timeline.Shape{Kernel: recompiled, ID: 7})}},
	}
}

func otherEvents() []timeline.Event {
	ranges := &timeline.Track{Process: process, Thread: worker, Category: timeline.NVTX}
	pools := &timeline.Track{Process: process, Category: timeline.Memory}
	bytes := &timeline.Counter{Process: process, Name: "device memory"}
	return []timeline.Event{
		recording, &timeline.Metadata{Log: "x", Values: map[string]string{"program": "app"}}, process,
		&timeline.SpanBegin{Track: ranges, Span: timeline.Span{Name: "step", Start: 100, End: 300,
			Args: []timeline.Detail{{Name: "domain", Text: "torch"}, {Name: "payload", Value: 7}, {Name: "address", Value: 0xff, Hex: true}}}},
		&timeline.SpanBegin{Track: ranges, Span: timeline.Span{Name: "open", Start: 150, Depth: 1, Open: true}},
		&timeline.Instant{Track: ranges, Span: timeline.Span{Name: "mark", Start: 160, End: 160}},
		&timeline.SpanEnd{Track: ranges, Span: timeline.Span{Name: "open", Start: 150, End: 200, Depth: 1, Open: true}},
		&timeline.SpanEnd{Track: ranges, Span: timeline.Span{Name: "step", Start: 100, End: 300}},
		&timeline.Instant{Track: pools, Span: timeline.Span{Name: "pool created", Start: 400, End: 400}},
		&timeline.CounterValue{Counter: bytes, Time: 100, Value: 4096},
		&timeline.CounterValue{Counter: bytes, Time: 200, Value: math.MaxUint64},
		&timeline.Allocation{Process: process, Time: 100, Bytes: 4096},
		&timeline.Loss{Time: 500, PID: 10, Cause: "ring_buffer", Count: 17, From: 20, To: 30},
		&timeline.Note{Time: 600, Text: "the recorder was suspended"},
		&timeline.Note{Time: 700, PID: 10, Text: "CUPTI was taken"},
	}
}

// TestGolden shows what is written for events of each type.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]timeline.Event{"calls": callEvents(), "work": workEvents(), "other": otherEvents()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", name+".txt")
			got := text(t, encoded(t, events))
			goldentest.Hold(t, path, got)
		})
	}
}

// However events are divided into lists, the trace has the same bytes.
func TestLists(t *testing.T) {
	t.Parallel()
	events := append(append(callEvents(), workEvents()[1:]...), otherEvents()[1:]...)
	want := encoded(t, events)
	var single [][]timeline.Event
	for _, e := range events {
		single = append(single, []timeline.Event{e})
	}
	if !bytes.Equal(encoded(t, single...), want) {
		t.Error("given one by one events make another trace")
	}
}

var (
	sequenceOf  = regexp.MustCompile(`trusted_packet_sequence_id: (\d+)`)
	timeOf      = regexp.MustCompile(`\n  timestamp: (\d+)`)
	beginOrEnds = regexp.MustCompile(`track_event \{ type: ([12]) `)
)

// times returns when calls of the only thread begin and when they end, each in the order of
// the trace. A packet has the time since the one before it in its sequence.
func times(t testing.TB, trace []byte) (begin, end []uint64) {
	t.Helper()
	at := make(map[string]uint64)
	for packet := range strings.SplitSeq(text(t, trace), "packet {\n") {
		kind, by := beginOrEnds.FindStringSubmatch(packet), timeOf.FindStringSubmatch(packet)
		if kind == nil {
			continue
		}
		ns := must.Get(strconv.ParseUint(by[1], 10, 64))(t)
		sequence := sequenceOf.FindStringSubmatch(packet)[1]
		if at[sequence] += ns; kind[1] == "1" {
			begin = append(begin, at[sequence])
		} else {
			end = append(end, at[sequence])
		}
	}
	slices.Sort(begin) // those of each depth are together
	return begin, end
}

// A call ends before the next one that does not lie in it begins, also where a selection left
// out calls around it.
func TestNesting(t *testing.T) {
	t.Parallel()
	end := &timeline.ThreadEnd{Thread: worker}
	for name, c := range map[string]struct {
		list []timeline.Slice
		ends []uint64
	}{
		"one after the other":     {[]timeline.Slice{call(synchro, 100, 200, 0), call(synchro, 200, 300, 0)}, []uint64{200, 300}},
		"one in the other":        {[]timeline.Slice{call(synchro, 100, 200, 0), call(synchro, 110, 120, 1)}, []uint64{120, 200}},
		"with one end":            {[]timeline.Slice{call(synchro, 100, 200, 0), call(synchro, 150, 200, 1)}, []uint64{200, 200}},
		"two in one":              {[]timeline.Slice{call(synchro, 100, 200, 0), call(synchro, 110, 120, 1), call(synchro, 120, 130, 1)}, []uint64{120, 130, 200}},
		"of no length":            {[]timeline.Slice{call(synchro, 100, 100, 0), call(synchro, 100, 100, 0)}, []uint64{100, 100}},
		"of no length in another": {[]timeline.Slice{call(synchro, 100, 200, 0), call(synchro, 100, 100, 1)}, []uint64{100, 200}},
		"within one that is left out": {
			[]timeline.Slice{call(synchro, 100, 110, 3), call(synchro, 120, 130, 4)}, []uint64{110, 130}},
		"within two, of which the inner one is left out": {
			[]timeline.Slice{call(synchro, 100, 200, 0), call(synchro, 110, 120, 2), call(synchro, 130, 140, 3)}, []uint64{120, 140, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin, ends := times(t, encoded(t, []timeline.Event{&timeline.Recording{}, process, callsOf(worker, c.list...), end}))
			for i, sl := range c.list {
				if len(begin) != len(c.list) || begin[i] != sl.Start {
					t.Fatalf("calls begin at %d", begin)
				}
			}
			if !slices.Equal(ends, c.ends) {
				t.Errorf("calls end at %d, want %d", ends, c.ends)
			}
		})
	}
}

// What calls are encoded with is theirs, although calls that are alike share it: calls that
// differ in one respect take turns, and so do some that share a place in memory.
func TestCallTemplates(t *testing.T) {
	t.Parallel()
	base := call(launch, 0, 0, 0, 9, 4)
	differing := []timeline.Slice{
		base,
		with(base, func(sl *timeline.Slice) { sl.Function = synchro }),
		with(base, func(sl *timeline.Slice) { sl.Kernel = &timeline.Kernel{Name: "k"} }),
		with(base, func(sl *timeline.Slice) { sl.Stream = stream }),
		with(base, func(sl *timeline.Slice) { sl.Stream = copies }),
		with(base, func(sl *timeline.Slice) { sl.Ret = 1 }),
		with(base, func(sl *timeline.Slice) { sl.Flags = timeline.NoReturn }),
		with(base, func(sl *timeline.Slice) {
			sl.Arguments = &timeline.Arguments{Args: []uint64{8, 8}, ID: base.Arguments.ID + 2*templates}
		}),
		with(base, func(sl *timeline.Slice) { sl.Arguments = noArgs }),
		with(call(synchro, 0, 0, 0), func(sl *timeline.Slice) { sl.Stream = stream }),
	}
	var list []timeline.Slice
	var want []string
	for i := range differing {
		for k := range differing {
			for _, sl := range []*timeline.Slice{&differing[i], &differing[k]} {
				at := uint64(10 * len(list))
				list = append(list, with(*sl, func(sl *timeline.Slice) { sl.Start, sl.End = at, at+5 }))
				want = append(want, alone(t, sl))
			}
		}
	}
	got := events(t, encoded(t, []timeline.Event{&timeline.Recording{}, process, callsOf(worker, list...)}), "track_event { type: 1 ")
	compareEach(t, want, got)
}

// alone returns what is written for a call that is the only one.
func alone(t testing.TB, sl *timeline.Slice) string {
	t.Helper()
	got := events(t, encoded(t, []timeline.Event{&timeline.Recording{}, process, callsOf(worker, *sl)}), "track_event { type: 1 ")
	if len(got) != 1 {
		t.Fatalf("a call is written as %q", got)
	}
	return got[0]
}

// What work is encoded with is its own, too.
func TestWorkTemplates(t *testing.T) {
	t.Parallel()
	kernel := timeline.Shape{Kernel: timeline.KernelShape{Name: "k", Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}, ID: 1}
	wider, other, copied := kernel, kernel, timeline.Shape{Memcpy: timeline.MemcpyShape{Bytes: 64, CopyKind: 1}, ID: 1}
	wider.Kernel.Grid[0] = 2
	other.Kernel.Name, other.ID = "l", 1+templates>>4
	base := timeline.Work{ID: 1, Shape: &kernel}
	type piece struct {
		*timeline.Stream
		timeline.Work
	}
	changed := func(s *timeline.Stream, change func(w *timeline.Work)) piece {
		w := base
		change(&w)
		return piece{s, w}
	}
	differing := []piece{
		{stream, base}, {copies, base},
		changed(stream, func(w *timeline.Work) { w.Shape = &wider }),
		changed(stream, func(w *timeline.Work) { w.Shape = &other }),
		changed(stream, func(w *timeline.Work) { w.Shape, w.Kind = &copied, timeline.MemcpyWork }),
		changed(stream, func(w *timeline.Work) { w.Graph = 3 }),
		changed(stream, func(w *timeline.Work) { w.Graph = 4 }),
	}
	of := func(pieces ...piece) []string {
		list := []timeline.Event{&timeline.Recording{}, process}
		for _, p := range pieces {
			list = append(list, &timeline.WorkList{Stream: p.Stream, List: []timeline.Work{p.Work}})
		}
		events := events(t, encoded(t, list), "gpu_render_stage_event {")
		slices.Sort(events) // those of each queue are together
		return events
	}
	var all []piece
	var want []string
	for i := range differing {
		for k := range differing {
			for _, p := range []piece{differing[i], differing[k]} {
				p.Work.ID = uint64(1 + len(all))
				all, want = append(all, p), append(want, of(p)...)
			}
		}
	}
	slices.Sort(want)
	compareEach(t, want, of(all...))
}

// With many streams and graphs some pieces of work share a place in memory. Each has its own
// stream and graph even so.
func TestManyQueuesAndGraphs(t *testing.T) {
	t.Parallel()
	const many = templates + 100
	shape := &timeline.Shape{ID: 1}
	first := &timeline.Stream{Context: context, ID: 1}
	var onStreams, ofGraphs []timeline.Event
	for i := range uint32(many) {
		other := &timeline.Stream{Context: context, ID: i + 2}
		for _, s := range []*timeline.Stream{first, other} {
			onStreams = append(onStreams, &timeline.WorkList{Stream: s, List: []timeline.Work{{ID: uint64(s.ID), Start: uint64(i), Shape: shape}}})
		}
		ofGraphs = append(ofGraphs, &timeline.WorkList{Stream: first, List: []timeline.Work{
			{ID: 1, Start: uint64(i), Graph: 1, Shape: shape}, {ID: uint64(i + 1), Start: uint64(i), Graph: i + 1, Shape: shape}}})
	}
	for argument, list := range map[string][]timeline.Event{"stream": onStreams, "graph": ofGraphs} {
		is := regexp.MustCompile(`\{ ` + argument + ` uint_value: (\d+) \}.* event_id: (\d+) `)
		trace := encoded(t, append([]timeline.Event{&timeline.Recording{}, process}, list...))
		n := 0
		for _, e := range events(t, trace, "gpu_render_stage_event {") {
			m := is.FindStringSubmatch(e)
			if m == nil || m[1] != m[2] {
				t.Fatalf("another %s is written: %s", argument, e)
			}
			n++
		}
		if n != 2*many {
			t.Errorf("%d pieces of work, want %d", n, 2*many)
		}
	}
}

func compareEach(t *testing.T, want, got []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("event %d is\n%s\nwhich alone is\n%s", i, got[i], want[i])
		}
	}
}

// Queues say what ran on them, and whose they are where there are several processes.
func TestQueueNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stream  timeline.Stream
		several bool
		want    string
	}{
		{timeline.Stream{ID: 7}, false, "Stream 7"},
		{timeline.Stream{ID: 7, Default: true}, false, "Stream 7 (default)"},
		{timeline.Stream{ID: 123, Name: "in"}, false, "Stream 123 (in)"},
		{timeline.Stream{ID: 7, Name: "in", Default: true}, true, "app 10 · Stream 7 (default, in)"},
		{timeline.Stream{ID: 7}, true, "app 10 · Stream 7"},
		{timeline.Stream{ID: 7, Only: timeline.OnlyNCCL}, false, "Stream 7 (NCCL)"},
		{timeline.Stream{ID: 7, Name: "in", Only: timeline.OnlyCopies}, false, "Stream 7 (in, copies)"},
	} {
		c.stream.Context = context
		processes := 1
		if c.several {
			processes = 2
		}
		trace := text(t, encoded(t, []timeline.Event{&timeline.Recording{Processes: processes}, process,
			&timeline.WorkList{Stream: &c.stream, List: []timeline.Work{work(1, 100, 5, timeline.MemsetWork, &timeline.Shape{})}}}))
		if !strings.Contains(trace, fmt.Sprintf("name: %q", c.want)) {
			t.Errorf("a queue is not called %q:\n%s", c.want, trace)
		}
	}
}

// The queues of a rank bear its number; those of a second process of the rank its name and PID.
func TestQueueNamesOfRanks(t *testing.T) {
	t.Parallel()
	rank := timeline.Circumstances{Rank: timeline.Rank{Number: 3, Known: true}}
	events := []timeline.Event{&timeline.Recording{Processes: 2}}
	for pid := range uint32(2) {
		p := &timeline.Process{PID: 10 + pid, Name: "rank 3: app", Circumstances: rank}
		stream := &timeline.Stream{ID: 7, Context: &timeline.Context{Process: p, ID: 1}}
		events = append(events, p, &timeline.WorkList{Stream: stream, List: []timeline.Work{work(1+uint64(pid), 100, 5, timeline.MemsetWork, &timeline.Shape{})}})
	}
	trace := text(t, encoded(t, events))
	for _, want := range []string{"rank 3 · Stream 7", "rank 3: app 11 · Stream 7"} {
		if !strings.Contains(trace, fmt.Sprintf("name: %q", want)) {
			t.Errorf("a queue is not called %q:\n%s", want, trace)
		}
	}
}

// Arguments have the types of their parameters.
func TestArguments(t *testing.T) {
	t.Parallel()
	const minusOne = 1<<32 - 1 // as 32 bits
	for typ, want := range map[string]string{
		"ptr": "pointer_value: 4294967295", "handle": "pointer_value: 4294967295", "i32": "int_value: -1", "enum": "int_value: -1",
		"i64": "int_value: 4294967295", "u32": "uint_value: 4294967295", "size": "uint_value: 4294967295", "": "uint_value: 4294967295",
	} {
		f := &timeline.Function{Name: "f", Params: []timeline.Param{{Name: "x", Type: typ}}}
		if got := alone(t, new(call(f, 0, 0, 0, minusOne))); !strings.Contains(got, "x "+want) {
			t.Errorf("an argument of type %q is in %s, want %s", typ, got, want)
		}
	}
	f := &timeline.Function{Name: "f", Params: []timeline.Param{{Name: "x", Type: "f32"}}}
	if got := alone(t, new(call(f, 0, 0, 0, uint64(math.Float32bits(0.25)), 5))); !strings.Contains(got, "x double_value: 0.25") || !strings.Contains(got, "arg1 uint_value: 5") {
		t.Errorf("a number of 32 bits and one more argument are in %s", got)
	}
}

// A writer notes what it is given, and may fail.
type writer struct {
	n    int
	fail error
}

func (w *writer) Write(p []byte) (int, error) {
	w.n += len(p)
	return len(p), w.fail
}

// A failure of the writer is Take's or End's.
func TestFailingWriter(t *testing.T) {
	t.Parallel()
	w := &writer{fail: errors.New("the disk is full")}
	s := New(w, Options{})
	var err error
	for range 10_000 {
		if err = s.Take(callEvents()[:1]); err == nil {
			err = s.Take(callEvents()[1:])
		}
		if err != nil {
			break
		}
	}
	if end := s.End(nil); !errors.Is(err, w.fail) || !errors.Is(end, w.fail) {
		t.Errorf("Take returns %v and End %v", err, end)
	}
}

// A timeline that is not whole is not ended, nor is one that has not begun.
func TestEnd(t *testing.T) {
	t.Parallel()
	w := new(writer)
	s := New(w, Options{})
	if err := s.End(nil); err != nil || w.n != 0 {
		t.Errorf("an empty timeline has %d bytes, %v", w.n, err)
	}
	must.Do(t, s.Take(callEvents()))
	n := w.n
	if err := s.End(errors.New("the log is gone")); err != nil || w.n != n {
		t.Errorf("after a failure %d bytes are written, %v", w.n-n, err)
	}
	if err := s.End(nil); err != nil || w.n == n {
		t.Errorf("%d bytes are written in the end, %v", w.n-n, err)
	}
}

// Launches that are alike have few bytes of their own: an interned kernel has their arguments.
func TestAlikeLaunches(t *testing.T) {
	t.Parallel()
	shape := &timeline.Shape{ID: 1, Kernel: timeline.KernelShape{Name: "k", Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}}
	list := &timeline.WorkList{Stream: stream}
	for i := range uint64(2 * wholeUses) {
		list.List = append(list.List, timeline.Work{ID: i + 1, Start: i, Shape: shape})
	}
	trace := encoded(t, []timeline.Event{&timeline.Recording{}, process, list})
	if n := strings.Count(plain(t, trace), "compute_kernels {"); n != 2 {
		t.Errorf("%d kernels are interned, want 2", n)
	}
	for i, e := range events(t, trace, "gpu_render_stage_event {") {
		if !strings.Contains(e, "{ category \"kernel\" }") || !strings.Contains(e, "{ device uint_value: 3 }") || strings.Count(e, "{ stream ") != 1 {
			t.Errorf("launch %d lacks an argument: %s", i, e)
		}
	}

	last := ""
	for line := range strings.SplitSeq(plain(t, trace), "\n") {
		if strings.Contains(line, "gpu_render_stage_event {") {
			last = line
		}
	}
	if n := strings.Count(last, " args {"); n != 1 { // its correlation ID
		t.Errorf("the last launch has %d arguments of its own, want 1: %s", n, last)
	}
}

// TestShares compares the rate of a copy with what its way gives: PCIe 5.0 with 16 lanes carries 63 GB/s, and the
// memory of an H200 4,814 GB/s, half of it for a copy.
func TestShares(t *testing.T) {
	t.Parallel()
	h200 := timeline.GPU{Name: "NVIDIA H200", Bandwidth: 4_814_304_000, Link: timeline.Link{Generation: 1, MaxGeneration: 5, Width: 16}}
	shares := regexp.MustCompile(`(throughput_GBps|\w+_share_percent) \w+: [\d.]+`)
	for name, c := range map[string]struct {
		gpu  timeline.GPU
		copy timeline.MemcpyShape
		want []string
	}{
		"host to device":   {h200, timeline.MemcpyShape{CopyKind: 1}, []string{"throughput_GBps double_value: 57.5", "link_share_percent uint_value: 91"}},
		"device to host":   {h200, timeline.MemcpyShape{CopyKind: 2}, []string{"throughput_GBps double_value: 57.5", "link_share_percent uint_value: 91"}},
		"host to array":    {h200, timeline.MemcpyShape{CopyKind: 3}, []string{"throughput_GBps double_value: 57.5", "link_share_percent uint_value: 91"}},
		"within a device":  {h200, timeline.MemcpyShape{CopyKind: 8}, []string{"throughput_GBps double_value: 57.5", "memory_share_percent uint_value: 2"}},
		"between devices":  {h200, timeline.MemcpyShape{CopyKind: 10, DstDevice: 1}, []string{"throughput_GBps double_value: 57.5"}},
		"other's memory":   {h200, timeline.MemcpyShape{CopyKind: 8, DstDevice: 1}, []string{"throughput_GBps double_value: 57.5"}},
		"within the host":  {h200, timeline.MemcpyShape{CopyKind: 9}, []string{"throughput_GBps double_value: 57.5"}},
		"an unknown link":  {timeline.GPU{}, timeline.MemcpyShape{CopyKind: 1}, []string{"throughput_GBps double_value: 57.5"}},
		"unknown capacity": {timeline.GPU{}, timeline.MemcpyShape{CopyKind: 8}, []string{"throughput_GBps double_value: 57.5"}},
	} {
		c.copy.Bytes, c.gpu.Index = 57_500_000, context.GPU
		got := shares.FindAllString(text(t, encoded(t, []timeline.Event{recording, &timeline.GPUs{List: []timeline.GPU{{Name: "another"}, c.gpu}}, process, context, stream,
			&timeline.WorkList{Stream: stream, List: []timeline.Work{work(1, 100, 1_000_000, timeline.MemcpyWork, &timeline.Shape{Memcpy: c.copy})}}})), -1)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

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
