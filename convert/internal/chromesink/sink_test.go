package chromesink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A program of tests, with one of each thing that events name.
var (
	recording = &timeline.Recording{Monotonic: 1000, Realtime: 1_700_000_000_000_000_000, Start: 100}
	program   = &timeline.Process{PID: 30, Name: "app", Host: "node"}
	mainTID   = &timeline.Thread{Process: program, TID: 30, Main: true}
	context   = &timeline.Context{Process: program, Device: 3, ID: 2}
	stream    = &timeline.Stream{Context: context, ID: 7, Default: true}
	launch    = &timeline.Function{Name: "cudaLaunchKernel", Library: "runtime", Params: []timeline.Param{{Name: "stream", Type: "handle"}, {Name: "x", Type: "f32"}}}
	inner     = &timeline.Function{Name: "cuLaunchKernel", Library: "driver"}
	ranges    = &timeline.Track{Process: program, Thread: mainTID, Category: timeline.NVTX}
)

// An event is an event of a file.
type event struct {
	Ph, Cat, Name string
	PID, TID      uint32
	TS, Dur       json.Number
	ID            uint64
	Args          map[string]any
}

// A trace is a file as a reader has it.
type trace struct {
	BaseTimeNanoseconds uint64
	DeviceProperties    []map[string]any
	TraceEvents         []event
}

// slices shows the slices of a category: name, thread, start and length.
func (tr *trace) slices(cat string) (list []string) {
	for _, e := range tr.TraceEvents {
		if e.Ph == "X" && e.Cat == cat {
			list = append(list, fmt.Sprintf("%s %d/%d %s+%s", e.Name, e.PID, e.TID, e.TS, e.Dur))
		}
	}
	return list
}

// files gives events to a sink and returns its files by process.
func files(t testing.TB, o Options, events ...timeline.Event) map[*timeline.Process]*bytes.Buffer {
	t.Helper()
	all := make(map[*timeline.Process]*bytes.Buffer)
	o.Open = func(p *timeline.Process) (io.Writer, error) {
		if all[p] != nil {
			t.Fatalf("process %d has two files", p.PID)
		}
		all[p] = new(bytes.Buffer)
		return all[p], nil
	}
	s := New(o)
	must.Do(t, s.Take(events))
	must.Do(t, s.End(nil))
	return all
}

// parse reads a file with another reader than ours.
func parse(t testing.TB, b *bytes.Buffer) *trace {
	t.Helper()
	if !utf8.Valid(b.Bytes()) {
		t.Fatalf("not UTF-8:\n%q", b)
	}
	var tr trace
	if err := json.Unmarshal(b.Bytes(), &tr); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return &tr
}

// traced is the trace of the test's process without a wall clock.
func traced(t testing.TB, o Options, events ...timeline.Event) *trace {
	t.Helper()
	all := files(t, o, append([]timeline.Event{&timeline.Recording{}}, events...)...)
	if all[program] == nil {
		t.Fatalf("%d files, none of the test's process", len(all))
	}
	return parse(t, all[program])
}

func call(f *timeline.Function, start, end uint64, depth int32, correlation uint32) timeline.Slice {
	return timeline.Slice{Function: f, Arguments: &timeline.Arguments{}, Start: start, End: end, Depth: depth, Correlation: correlation}
}

func kernel(start, dur uint64) timeline.Work {
	return timeline.Work{ID: start, Start: start, Dur: dur, Shape: &timeline.Shape{Kernel: timeline.KernelShape{Name: "k"}}}
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	goldentest.Same(t, want, got, "result")
}

// A reader that multiplies a time by 1000 and rounds has each ns, at any time of a period and some
// days after it.
func TestTimesAreExact(t *testing.T) {
	for ns := uint64(0); ns < basePeriod+5*24*3600e9; ns += 12_345_678_901_237 {
		o := object{}
		o.micros("ts", int64(ns))
		_, text, _ := strings.Cut(string(o.b), ":")
		us, err := strconv.ParseFloat(text, 64)
		if err != nil || uint64(math.Round(us*1000)) != ns {
			t.Fatalf("%d ns are %s, read as %f", ns, text, us*1000)
		}
	}
}

// All traces of a period have one base, and a time keeps each ns.
func TestBaseTime(t *testing.T) {
	later := *recording
	later.Monotonic, later.Realtime = 5000, recording.Realtime+60e9
	var bases []uint64
	for _, r := range []*timeline.Recording{recording, &later} {
		all := files(t, Options{}, r, &timeline.WorkList{Stream: stream, List: []timeline.Work{kernel(r.Monotonic+7, 3)}})
		tr := parse(t, all[program])
		bases = append(bases, tr.BaseTimeNanoseconds)
		ns := r.Realtime + 7 - tr.BaseTimeNanoseconds
		expect(t, tr.slices("kernel"), fmt.Sprintf("k 3/7 %d.%03d+0.003", ns/1000, ns%1000))
		if us, err := tr.TraceEvents[len(tr.TraceEvents)-1].TS.Float64(); err != nil || uint64(math.Round(us*1000)) != ns {
			t.Errorf("a double makes %v of %d ns", us*1000, ns)
		}
	}
	if bases[0] != bases[1] || bases[0]%basePeriod != 0 || bases[0] > recording.Realtime {
		t.Errorf("bases %d", bases)
	}
}

// Calls that cross, and work that overlaps, get threads of their own. Nested calls and work in a
// row do not.
func TestOverlaps(t *testing.T) {
	tr := traced(t, Options{},
		&timeline.Slices{Thread: mainTID, List: []timeline.Slice{
			call(launch, 1000, 2000, 0, 0), call(inner, 1000, 2000, 1, 0), call(inner, 1500, 2500, 1, 0), call(inner, 2000, 2000, 0, 0), call(launch, 2500, 2600, 0, 0)}},
		&timeline.WorkList{Stream: stream, List: []timeline.Work{kernel(1000, 1000), kernel(1500, 100), kernel(1550, 10), kernel(2000, 0), kernel(2000, 10)}})
	expect(t, tr.slices("cuda_runtime"), "cudaLaunchKernel 30/30 1.000+1.000", "cudaLaunchKernel 30/30 2.500+0.100")
	expect(t, tr.slices("cuda_driver"), "cuLaunchKernel 30/30 1.000+1.000", "cuLaunchKernel 30/10000030 1.500+1.000", "cuLaunchKernel 30/30 2.000+0.000")
	expect(t, tr.slices("kernel"), "k 3/7 1.000+1.000", "k 3/10000007 1.500+0.100", "k 3/20000007 1.550+0.010", "k 3/7 2.000+0.000", "k 3/7 2.000+0.010")
	for _, e := range tr.TraceEvents {
		if e.Cat == "kernel" && e.Args["stream"] != 7.0 {
			t.Errorf("work on thread %d has stream %v", e.TID, e.Args["stream"])
		}
	}
}

// A second context may number its streams like the first. Thread number 0 is never used, and the
// rows of tracks leave the numbers of threads free.
func TestNumbers(t *testing.T) {
	other := &timeline.Stream{Context: &timeline.Context{Process: program, Device: 3, ID: 9}, ID: 7}
	zero := &timeline.Stream{Context: context}
	tr := traced(t, Options{},
		&timeline.SpanBegin{Track: &timeline.Track{Process: program, Category: timeline.CUPTI}, Span: timeline.Span{Name: "CUPTI buffer flush", Start: 1, End: 2}},
		&timeline.SpanBegin{Track: ranges, Span: timeline.Span{Name: "r", Start: 1, End: 2}},
		&timeline.Slices{Thread: mainTID, List: []timeline.Slice{call(launch, 1, 2, 0, 0)}},
		&timeline.WorkList{Stream: stream, List: []timeline.Work{kernel(1, 1)}},
		&timeline.WorkList{Stream: other, List: []timeline.Work{kernel(1, 1)}},
		&timeline.WorkList{Stream: zero, List: []timeline.Work{kernel(1, 1)}})
	expect(t, tr.slices("overhead"), "Buffer Flush 30/10000030 0.001+0.001")
	expect(t, tr.slices("user_annotation"), "r 30/20000030 0.001+0.001")
	expect(t, tr.slices("cuda_runtime"), "cudaLaunchKernel 30/30 0.001+0.001")
	expect(t, tr.slices("kernel"), "k 3/7 0.001+0.001", "k 3/10000007 0.001+0.001", "k 3/10000000 0.001+0.001")
}

// Overlaps without end share the last lane.
func TestManyOverlaps(t *testing.T) {
	var list []timeline.Work
	for i := range uint64(3 * maxLanes) {
		list = append(list, kernel(1+i, 1e9))
	}
	tr := traced(t, Options{}, &timeline.WorkList{Stream: stream, List: list})
	rows := make(map[uint32]int)
	for _, e := range tr.TraceEvents {
		if e.Ph == "X" {
			rows[e.TID]++
		}
	}
	if len(rows) != maxLanes || len(tr.slices("kernel")) != len(list) {
		t.Errorf("%d rows with %d kernels", len(rows), len(tr.slices("kernel")))
	}
}

// Of nested calls with one correlation ID the outer one bears it. No argument of a call has a name
// that readers take for GPU work.
func TestCorrelation(t *testing.T) {
	outer := call(launch, 10, 90, 0, 5)
	outer.Arguments = &timeline.Arguments{Args: []uint64{math.MaxUint64, uint64(math.Float32bits(float32(math.Inf(1))))}}
	outer.Stream = stream
	deep := call(inner, 20, 80, 1, 5)
	deep.AddWork(77)
	work := kernel(100, 10)
	work.Correlation, work.Call = 5, timeline.Call{Function: inner}
	tr := traced(t, Options{}, &timeline.Slices{Thread: mainTID, List: []timeline.Slice{outer, deep, call(inner, 95, 99, 0, 6)}},
		&timeline.WorkList{Stream: stream, List: []timeline.Work{work}})
	var got []string
	for i, e := range tr.TraceEvents {
		switch {
		case e.Ph == "s" || e.Ph == "f":
			got = append(got, fmt.Sprintf("%s %d at %s behind %s", e.Ph, e.ID, e.TS, tr.TraceEvents[i-1].Name))
		case e.Ph == "X":
			text := must.Get(json.Marshal(e.Args))(t)
			got = append(got, e.Cat+" "+string(text))
		}
	}
	expect(t, got,
		`cuda_runtime {"arguments":{"stream":"0xffffffffffffffff","x":"+Inf"},"correlation":5,"cuda stream":7}`,
		`cuda_driver {}`,
		`s 5 at 0.020 behind cuLaunchKernel`,
		`cuda_driver {"correlation":6}`,
		`kernel {"block":[0,0,0],"context":2,"correlation":5,"device":3,"graph id":0,"graph node id":0,"grid":[0,0,0],"registers per thread":0,"shared memory":0,"stream":7}`,
		`f 5 at 0.100 behind k`)
}

// Of calls that follow each other with one correlation ID, the first bears it, and the arrows to all their work begin there.
func TestCorrelationOfSeveralCalls(t *testing.T) {
	first, second := call(inner, 10, 20, 0, 5), call(inner, 30, 40, 0, 5)
	first.AddWork(77)
	second.AddWork(78)
	works := []timeline.Work{kernel(15, 3), kernel(35, 3)}
	for i := range works {
		works[i].Correlation, works[i].Call = 5, timeline.Call{Function: inner}
	}
	tr := traced(t, Options{}, &timeline.Slices{Thread: mainTID, List: []timeline.Slice{first, second}}, &timeline.WorkList{Stream: stream, List: works})
	var got []string
	for _, e := range tr.TraceEvents {
		switch {
		case e.Ph == "s" || e.Ph == "f":
			got = append(got, fmt.Sprintf("%s %d at %s", e.Ph, e.ID, e.TS))
		case e.Cat == "cuda_driver":
			got = append(got, fmt.Sprintf("call at %s: correlation %v", e.TS, e.Args["correlation"]))
		}
	}
	expect(t, got, "call at 0.010: correlation 5", "s 5 at 0.010", "call at 0.030: correlation <nil>", "f 5 at 0.015", "f 5 at 0.035")
}

// A range that is a step has the step's number. A range whose end comes later is written then.
func TestSteps(t *testing.T) {
	span := func(step *timeline.Step, start, end uint64, open bool) timeline.Span {
		return timeline.Span{Name: "forward", Start: start, End: end, Open: open, Ranges: &timeline.RangeStack{Range: &timeline.Range{Step: step}}}
	}
	begin := func(sp timeline.Span) *timeline.SpanBegin { return &timeline.SpanBegin{Track: ranges, Span: sp} }
	end := func(sp timeline.Span) *timeline.SpanEnd { return &timeline.SpanEnd{Track: ranges, Span: sp} }
	inner, next := span(nil, 11, 12, false), span(&timeline.Step{Number: 8}, 20, 30, false)
	tr := traced(t, Options{},
		begin(span(&timeline.Step{Number: 7}, 10, 0, true)), begin(inner), end(inner), end(span(&timeline.Step{Number: 7}, 10, 20, true)), begin(next), end(next),
		&timeline.Instant{Track: ranges, Span: timeline.Span{Name: "step mark", Start: 15}})
	expect(t, tr.slices("user_annotation"), "forward 30/10000030 0.011+0.001", "ProfilerStep#7 30/10000030 0.010+0.010", "ProfilerStep#8 30/10000030 0.020+0.010")
}

// Each process has its own file, with its devices; remarks on the recording are in all of them. A
// process without events has none.
func TestProcesses(t *testing.T) {
	second := &timeline.Process{PID: 1<<pidBits + 31}
	idle := &timeline.Process{PID: 32}
	all := files(t, Options{}, recording, &timeline.GPUs{List: []timeline.GPU{{Name: "H200", Multiprocessors: 4}}},
		program, idle, second, context,
		&timeline.WorkList{Stream: stream, List: []timeline.Work{{ID: 1, Shape: &timeline.Shape{Kernel: timeline.KernelShape{Grid: [3]uint32{9, 1, 1}, Block: [3]uint32{64, 1, 1}}}}}},
		&timeline.CounterValue{Counter: &timeline.Counter{Process: second, Name: "device memory"}, Time: 1, Value: math.MaxUint64},
		&timeline.Note{Time: 5, Text: "all"}, &timeline.Loss{Time: 6, PID: 31, Cause: "ring_buffer", Count: 2}, &timeline.Note{Time: 7, PID: 99, Text: "no file"})
	if len(all) != 2 {
		t.Fatalf("%d files", len(all))
	}
	remarks := func(tr *trace) (list []string) {
		for _, e := range tr.TraceEvents {
			if e.Ph == "i" {
				list = append(list, e.Name)
			}
		}
		return list
	}
	first, last := parse(t, all[program]), parse(t, all[second])
	expect(t, remarks(first), "all", "no file")
	expect(t, remarks(last), "all", "2 records lost: ring_buffer", "no file")
	if diff := cmp.Diff([]map[string]any{{"id": 3.0, "name": "H200", "numSms": 4.0}}, first.DeviceProperties); diff != "" || last.DeviceProperties != nil {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	for _, e := range first.TraceEvents {
		if e.Cat == "kernel" && (e.Args["blocks per SM"] != 2.25 || e.Args["warps per SM"] != 4.5) {
			t.Errorf("%v", e.Args)
		}
	}
}

// A timeline without events is one trace without events of CUDA; a broken one is none.
// A GPU's properties are those of the log and of its compute capability, and kernels have the
// occupancy that follows.
func TestOccupancy(t *testing.T) {
	launched := func(k timeline.KernelShape) timeline.Work {
		return timeline.Work{ID: 1, Shape: &timeline.Shape{Kernel: k}}
	}
	all := files(t, Options{}, recording, &timeline.GPUs{List: []timeline.GPU{{Name: "H200", Multiprocessors: 132, Major: 9, Memory: 1 << 37,
		Limits: timeline.Limits{MaxBlocks: 31}}}}, program, context,
		&timeline.WorkList{Stream: stream, List: []timeline.Work{
			launched(timeline.KernelShape{Grid: [3]uint32{198, 1, 1}, Block: [3]uint32{32, 8, 1}, Registers: 128, StaticShared: 1 << 10, DynamicShared: 128 << 10}),
			launched(timeline.KernelShape{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{4096, 1, 1}}),
		}})
	tr := parse(t, all[program])
	want := map[string]any{"id": 3.0, "name": "H200", "totalGlobalMem": float64(1 << 37), "computeMajor": 9.0, "computeMinor": 0.0, "maxThreadsPerBlock": 1024.0,
		"maxThreadsPerMultiprocessor": 2048.0, "regsPerBlock": 65536.0, "warpSize": 32.0, "sharedMemPerBlock": 49152.0, "numSms": 132.0,
		"regsPerMultiprocessor": 65536.0, "sharedMemPerBlockOptin": 232448.0, "sharedMemPerMultiprocessor": 233472.0}
	goldentest.Same(t, []map[string]any{want}, tr.DeviceProperties, "devices")
	var got []string
	for _, e := range tr.TraceEvents {
		if e.Cat == "kernel" {
			text := must.Get(json.Marshal(e.Args["occupancy"]))(t)
			got = append(got, fmt.Sprintf("%v %v %v %s", e.Args["est. achieved occupancy %"], e.Args["waves"], e.Args["tail %"], text))
		}
	}
	expect(t, got, `13 1.5 50 {"activeBlocksPerMultiprocessor":1,"allocatedRegistersPerBlock":32768,"allocatedSharedMemPerBlock":133120,`+
		`"blockLimitBlocks":31,"blockLimitRegs":2,"blockLimitSharedMem":1,"blockLimitWarps":8,"limitingFactors":"SMEM"}`,
		`<nil> <nil> <nil> null`)
}

func TestEmpty(t *testing.T) {
	for _, events := range [][]timeline.Event{nil, {recording}, {recording, program}} {
		if all := files(t, Options{}, events...); len(all) != 1 {
			t.Errorf("%d files", len(all))
		}
	}
	s := New(Options{Open: func(*timeline.Process) (io.Writer, error) { panic("opened") }})
	if err := s.End(errors.New("the log cannot be read")); err != nil {
		t.Error(err)
	}
}

// The first failure of a file ends the conversion.
func TestFailures(t *testing.T) {
	full := errors.New("disk full")
	work := &timeline.WorkList{Stream: stream, List: make([]timeline.Work, 1000)}
	for i := range work.List {
		work.List[i] = kernel(uint64(i), 1)
	}
	s := New(Options{Open: func(*timeline.Process) (io.Writer, error) { return failing{full}, nil }})
	if err := s.Take([]timeline.Event{recording, work}); !errors.Is(err, full) {
		t.Errorf("write: %v", err)
	}
	s = New(Options{Open: func(*timeline.Process) (io.Writer, error) { return nil, full }})
	if err := s.Take([]timeline.Event{recording, work}); !errors.Is(err, full) {
		t.Errorf("open: %v", err)
	}
	s = New(Options{Open: func(*timeline.Process) (io.Writer, error) { return failing{full}, nil }})
	if err := s.End(nil); !errors.Is(err, full) {
		t.Errorf("end: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// Names come from the program: whatever they hold, the file is JSON in UTF-8, and a reader gets
// each name back, with U+FFFD for what is no UTF-8.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"", "a\"b\\c/d", "\x00\x1f\x7f\n\t", "\xff\xfeok\xc3", "ünïcödé \u2028 \U0001F600", "</script>", "\xed\xa0\x80"} {
		f.Add(s, uint64(0), uint64(1))
	}
	f.Add("times", uint64(math.MaxUint64), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, name string, start, dur uint64) {
		p := &timeline.Process{PID: 1, Name: name, Host: name}
		th := &timeline.Thread{Process: p, TID: 2, Name: name}
		c := &timeline.Context{Process: p}
		sl := call(&timeline.Function{Name: name, Library: name, Driver: name, Params: []timeline.Param{{Name: name}}}, start, start+dur, 0, 0)
		sl.Arguments, sl.Kernel, sl.Caller = &timeline.Arguments{Args: []uint64{dur, start}}, &timeline.Kernel{Name: name}, &timeline.Caller{Module: name, Symbol: name}
		work := kernel(start, dur)
		work.Shape.Kernel.Name = name
		all := files(t, Options{},
			&timeline.Recording{Monotonic: start, Realtime: dur, Start: start}, &timeline.GPUs{List: []timeline.GPU{{Name: name}}}, c,
			&timeline.Slices{Thread: th, List: []timeline.Slice{sl}},
			&timeline.WorkList{Stream: &timeline.Stream{Context: c, Name: name}, List: []timeline.Work{work}},
			&timeline.SpanBegin{Track: &timeline.Track{Process: p, Category: timeline.Category(name), Domain: name}, Span: timeline.Span{Name: name, Start: start, End: dur, Args: []timeline.Detail{{Name: name, Text: name}}}},
			&timeline.CounterValue{Counter: &timeline.Counter{Process: p, Name: name}, Time: start, Value: dur},
			&timeline.Note{Text: name})
		want := strings.ToValidUTF8(name, "\x00") // a run of bad bytes is one here
		for _, e := range parse(t, all[p]).TraceEvents {
			if e.Ph == "C" && strings.Count(want, "\x00") == strings.Count(name, "\x00") && e.Name != name {
				t.Errorf("%q is %q", name, e.Name)
			}
		}
	})
}
