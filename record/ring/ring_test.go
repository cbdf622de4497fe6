package ring

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

const (
	second = uint64(time.Second)
	start  = 1000 * second // of the recordings here
)

// A bench is a recording in simulated time, of which a ring keeps the newest part and a log everything.
type bench struct {
	*testing.T
	ring *Ring
	all  *tracelog.Writer
	path string // of the log with everything
	now  uint64

	ticks int
}

func newBench(t *testing.T, last time.Duration, disk uint64) *bench {
	b := &bench{T: t, path: filepath.Join(t.TempDir(), "all"), now: start}
	f, err := os.Create(b.path)
	if err != nil {
		t.Fatal(err)
	}
	if b.all, err = tracelog.NewFileWriter(f, tracelog.Options{}); err != nil {
		t.Fatal(err)
	}
	b.ring, err = New(Options{Last: last, Disk: disk, Create: func() (*os.File, error) { return os.CreateTemp(t.TempDir(), "") },
		now: func() tracelog.Clock {
			return tracelog.Clock{Monotonic: b.now, Realtime: b.now + 5, Boottime: b.now + 7}
		}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// add adds a record to both.
func (b *bench) add(x tracelog.Record) {
	b.all.Add(x)
	b.ring.Writer.Add(x)
}

// tick lets time pass.
func (b *bench) tick(d uint64) {
	b.Helper()
	b.now += d
	if b.ticks++; b.ticks%37 == 0 || d >= second { // blocks hold records of several ticks
		must.Do(b, b.ring.Writer.Flush())
	}
	must.Do(b, b.ring.Tick(b.now))
}

// snapshot writes the window that ends at a time, and returns the records of its log.
func (b *bench) snapshot(until uint64) (*Snapshot, records) {
	b.Helper()
	s := must.Get(b.ring.Snapshot(until))(b)
	defer s.Done()
	path := filepath.Join(b.TempDir(), "window")
	f := must.Get(os.Create(path))(b)
	w := must.Get(tracelog.NewFileWriter(f, tracelog.Options{}))(b)
	must.Do(b, s.WriteTo(w, "a test"))
	must.Do(b, w.Close(tracelog.End{Time: until, Complete: 1}))
	return s, read(b.T, path, tracelog.Filter{}, true)
}

// records are the records of a log in words, by kind, sorted.
type records map[tracelog.Kind][]string

// read reads the records of a log that a filter selects. One that is still written need not have ended.
func read(t *testing.T, path string, f tracelog.Filter, ended bool) records {
	t.Helper()
	r := must.Get(tracelog.Open(path))(t)
	defer r.Close()
	all := records{}
	for r.Next() {
		b := r.Block()
		x := tracelog.NewRecord(b.Kind)
		for i := 0; i < b.N && x != nil; i++ {
			if f.Match(b, i) {
				x.Read(b, i)
				all[b.Kind] = append(all[b.Kind], fmt.Sprintf("%+v", x))
			}
		}
	}
	if _, has := r.End(); ended && (r.Err() != nil || !has) {
		t.Fatalf("%v, ended %t", r.Err(), has)
	}
	for _, list := range all {
		slices.Sort(list)
	}
	return all
}

// meta is the value of a Meta record.
func (r records) meta(key string) string {
	for _, text := range r[tracelog.KindMeta] {
		if _, value, found := strings.Cut(text, "Key:"+key+" Value:"); found {
			return strings.TrimSuffix(value, "}")
		}
	}
	return ""
}

const (
	pid, tid = 7, 8
	latency  = second / 2 // from a call to its kernel
)

// allocating is a call that returns the address of memory at a time.
func allocating(at, address, bytes uint64) *tracelog.Call {
	return &tracelog.Call{PID: pid, TID: tid, Func: 5, Enter: at - 500, Dur: 500, NArgs: 2, Args: [12]uint64{address, bytes}}
}

// freeing is a call of another thread that begins to free memory at a time.
func freeing(at, address uint64) *tracelog.Call {
	return &tracelog.Call{PID: pid, TID: tid + 1, Func: 6, Enter: at, Dur: 500, NArgs: 1, Args: [12]uint64{address}}
}

// memoryRecord is what a window has of an allocation or a release.
func memoryRecord(at, address, bytes uint64, operation uint32) *tracelog.Memory {
	return &tracelog.Memory{PID: pid, Operation: operation, MemoryKind: cudaapi.DeviceKind, Time: at, Address: address, Bytes: bytes}
}

// loop records steps of 10 ms: a range around a launch whose kernel runs half a second later and is
// recorded when it has ended, an allocation that is released a second later, and sometimes a mark.
func (b *bench) loop(from, to int) {
	for i := from; i < to; i++ {
		at, id := b.now, uint32(i+1)
		b.add(&tracelog.Marker{PID: pid, TID: tid, ID: id, Flags: tracelog.MarkerStart, Time: at, Name: "step " + strconv.Itoa(i%3)})
		b.add(&tracelog.Call{PID: pid, TID: tid, Func: 3, Caller: 4, Enter: at + 1000, Dur: 5000})
		b.add(&tracelog.API{PID: pid, TID: tid, Name: "cuLaunchKernel", Start: at + 2000, Dur: 3000, Correlation: id})
		b.add(allocating(at+3000, uint64(i+1), 64))
		b.add(&tracelog.Marker{PID: pid, TID: tid, ID: id, Flags: tracelog.MarkerEnd, Time: at + 8000})
		if done := i - int((latency+second/100)*100/second); done >= 0 {
			b.add(&tracelog.Kernel{GPU: tracelog.GPU{PID: pid, Correlation: uint32(done + 1), Start: at - second/100, Dur: second / 200}, Name: "kernel " + strconv.Itoa(i%5)})
		}
		if i >= 100 {
			b.add(freeing(at+9000, uint64(i+1-100)))
		}
		if i%50 == 0 {
			b.add(&tracelog.Marker{PID: pid, TID: tid, Flags: tracelog.MarkerInstant, Time: at + 1, Name: "mark"})
		}
		b.tick(second / 100)
	}
}

// define records definitions, a range that stays open and an allocation that stays live.
func (b *bench) define() {
	for _, x := range []tracelog.Record{
		&tracelog.Meta{Key: "program", Value: "loop"},
		&tracelog.Process{PID: pid, Start: b.now, Exe: "/bin/loop"},
		&tracelog.Function{ID: 3, Name: "cuLaunchKernel", Library: "driver"},
		&tracelog.Caller{ID: 4, Module: "/bin/loop"},
		&tracelog.Device{PID: pid, Name: "GPU"},
		&tracelog.Thread{PID: pid, TID: tid, Name: "early"},
		&tracelog.Note{Time: b.now, Severity: tracelog.NoteWarning, Text: "remember"},
		&tracelog.Marker{PID: pid, TID: tid, ID: 1 << 20, Flags: tracelog.MarkerStart, Time: b.now, Name: "epoch"},
		&tracelog.Meta{Key: tracelog.MetaMemory, Value: tracelog.MemoryOfCalls},
		&tracelog.Function{ID: 5, Name: "cuMemAlloc_v2", Library: "driver", Args: "devPtr:ptr bytes:size"},
		&tracelog.Function{ID: 6, Name: "cuMemFree_v2", Library: "driver", Args: "devPtr:ptr"},
		allocating(b.now+500, 1<<40, 4096),
	} {
		b.add(x)
	}
}

// TestWindow compares windows with the same part of a log that has everything: at the beginning, when
// nothing was removed, and later.
func TestWindow(t *testing.T) {
	b := newBench(t, 3*time.Second, 1<<30)
	b.define()
	steps, finished := 0, false
	for _, n := range []int{150, 1000, 1003, 2500} {
		b.loop(steps, n)
		steps = n
		s, got := b.snapshot(b.now)
		if n == 1000 {
			b.add(&tracelog.Thread{PID: pid, TID: tid, Name: "late"})
		}
		b.check(s, got, n)
		finished = finished || !s.Held.Whole
	}
	if !finished {
		t.Error("no window was a part of the recording")
	}
}

// check compares a window after n steps with the log that has everything.
func (b *bench) check(s *Snapshot, got records, n int) {
	b.Helper()
	must.Do(b, b.all.Flush())
	from, until := max(start, b.now-min(b.now, 3*second)), b.now
	if s.Held.From != from || s.Held.Until != until || s.Held.Whole != (from == start) || s.Held.Short() {
		b.Errorf("step %d: it holds %+v, %d to %d was to be held", n, s.Held, from, until)
	}
	want := read(b.T, b.path, tracelog.Filter{From: from, To: until}, false)
	for _, k := range []tracelog.Kind{tracelog.KindCall, tracelog.KindAPI, tracelog.KindKernel} {
		if diff := cmp.Diff(want[k], got[k]); diff != "" || len(got[k]) == 0 {
			b.Errorf("step %d, kind %d: %d records (-all +window)\n%.2000s", n, k, len(got[k]), diff)
		}
	}
	want[tracelog.KindMarker] = with(want[tracelog.KindMarker], &tracelog.Marker{PID: pid, TID: tid, ID: 1 << 20, Flags: tracelog.MarkerStart, Time: from, Name: "epoch"}, from > start)
	part := from > start // a window that has all has no records of memory: the calls are there
	want[tracelog.KindMemory] = with(want[tracelog.KindMemory], memoryRecord(from, 1<<40, 4096, cudaapi.MemoryAllocated), part)
	for i := range n {
		allocated := start + uint64(i)*second/100 + 3000
		freed, is := allocated+second+6000, i+100 < n
		want[tracelog.KindMemory] = with(want[tracelog.KindMemory], memoryRecord(max(allocated, from), uint64(i+1), 64, cudaapi.MemoryAllocated), part && (!is || freed >= from))
		want[tracelog.KindMemory] = with(want[tracelog.KindMemory], memoryRecord(freed, uint64(i+1), 64, cudaapi.MemoryReleased), part && is && freed >= from)
	}
	for _, k := range []tracelog.Kind{tracelog.KindMarker, tracelog.KindMemory} {
		if diff := cmp.Diff(want[k], got[k]); diff != "" {
			b.Errorf("step %d, kind %d (-all +window)\n%.2000s", n, k, diff)
		}
	}
	b.checkDefinitions(got, n, from)
	b.checkEarlier(got, n, from)
}

// with adds a record to a list, if it is to be there.
func with(list []string, x tracelog.Record, there bool) []string {
	if there {
		list = append(list, fmt.Sprintf("%+v", x))
		slices.Sort(list)
	}
	return list
}

func (b *bench) checkDefinitions(got records, n int, from uint64) {
	b.Helper()
	for k, want := range map[tracelog.Kind]tracelog.Record{
		tracelog.KindCaller:  &tracelog.Caller{ID: 4, Module: "/bin/loop"},
		tracelog.KindDevice:  &tracelog.Device{PID: pid, Name: "GPU"},
		tracelog.KindProcess: &tracelog.Process{PID: pid, Start: from, Exe: "/bin/loop"},
	} {
		if text := fmt.Sprintf("%+v", want); !slices.Equal(got[k], []string{text}) {
			b.Errorf("step %d: %q, want %q", n, got[k], text)
		}
	}
	name := "early"
	if n > 1000 {
		name = "late"
	}
	if names := got[tracelog.KindThread]; !slices.ContainsFunc(names, func(s string) bool { return strings.Contains(s, name) }) || n > 2000 && len(names) > 1 {
		b.Errorf("step %d: threads %q", n, names)
	}
	if !slices.ContainsFunc(got[tracelog.KindNote], func(s string) bool { return strings.Contains(s, "remember") }) || got.meta("program") != "loop" {
		b.Errorf("step %d: notes %q, meta %q", n, got[tracelog.KindNote], got[tracelog.KindMeta])
	}
	if clocks := got[tracelog.KindClock]; len(clocks) != 1 || clocks[0] != fmt.Sprintf("%+v", &tracelog.Clock{Monotonic: from, Realtime: from + 5, Boottime: from + 7}) {
		b.Errorf("step %d: clocks %q", n, clocks)
	}
}

// checkEarlier compares the number of kernels without a call with those in the window.
func (b *bench) checkEarlier(got records, n int, from uint64) {
	b.Helper()
	calls := map[string]bool{}
	for _, text := range got[tracelog.KindAPI] {
		calls[correlation(text)] = true
	}
	alone := 0
	for _, text := range got[tracelog.KindKernel] {
		if !calls[correlation(text)] {
			alone++
		}
	}
	if said := got.meta(tracelog.MetaLastEarlier); said != strconv.Itoa(alone) || (alone > 0) != (from > start) {
		b.Errorf("step %d: it is said that %s kernels have no call in the window: %d", n, said, alone)
	}
}

func correlation(text string) string {
	_, id, _ := strings.Cut(text, "Correlation:")
	id, _, _ = strings.Cut(id, " ")
	return strings.Trim(id, "}")
}

// TestDiskLimit records far more than fits on the disk: the segments keep to the limit, and the window
// says that it is shorter.
func TestDiskLimit(t *testing.T) {
	const room = 1 << 20
	const disk = 2 * room // half of it for what the writer reserves
	b := newBench(t, time.Hour, disk)
	b.define()
	most, random := uint64(0), rand.New(rand.NewPCG(1, 2))
	for i := range 250 {
		for range 1000 { // times that can't be compressed
			b.add(&tracelog.Call{PID: pid, TID: uint32(i), Func: 3, Enter: b.now + random.Uint64N(second), Dur: random.Uint64N(second)})
		}
		b.tick(second)
		most = max(most, b.ring.size())
	}
	if most > room+room/4 || most < room/2 {
		t.Errorf("the segments took up to %d bytes, %d are allowed", most, room)
	}
	s, got := b.snapshot(b.now)
	if !s.Held.Short() || s.Held.Time() < 2*time.Second || got.meta(tracelog.MetaLastShort) == "" {
		t.Errorf("it holds %s %+v", s.Held.Time(), got[tracelog.KindMeta])
	}
	if len(got[tracelog.KindFunction]) != 3 {
		t.Error("the definitions are gone")
	}
	if m := b.ring.before.memory; len(b.ring.before.open) != 1 || len(m.processes) != 1 || len(m.processes[pid].Alive()) != 1 {
		t.Errorf("open: %v, memory: %v", b.ring.before.open, m.processes)
	}
}

// TestOrder has ends in front of beginnings, as records of several threads come.
func TestOrder(t *testing.T) {
	at := func(n uint64) *tracelog.MemoryPool {
		return &tracelog.MemoryPool{PID: 1, Address: 5, Time: n, Operation: created}
	}
	free := func(n uint64) *tracelog.MemoryPool {
		return &tracelog.MemoryPool{PID: 1, Address: 5, Time: n, Operation: cudaapi.PoolDestroyed}
	}
	for name, c := range map[string]struct {
		segments [][]tracelog.Record
		live     uint64 // time of the creation of the pool that is left, 0 for none
	}{
		"allocated":                   {[][]tracelog.Record{{at(1)}}, 1},
		"released":                    {[][]tracelog.Record{{at(1), free(2)}}, 0},
		"release first":               {[][]tracelog.Record{{free(2), at(1)}}, 0},
		"release in front":            {[][]tracelog.Record{{free(2)}, {at(1)}}, 0},
		"release long before":         {[][]tracelog.Record{{free(2)}, {}, {at(3)}}, 3},
		"again":                       {[][]tracelog.Record{{at(1), free(2), at(3)}}, 3},
		"again, in another order":     {[][]tracelog.Record{{at(3), at(1), free(2)}}, 3},
		"again, in a later segment":   {[][]tracelog.Record{{at(1)}, {free(2), at(3)}}, 3},
		"released in a later segment": {[][]tracelog.Record{{at(1)}, {}, {free(2)}}, 0},
	} {
		s := newState()
		for _, segment := range c.segments {
			s.segment++
			for _, x := range segment {
				s.takeRecord(x)
			}
			s.settle()
		}
		live := uint64(0)
		for _, o := range s.open {
			if o.record != nil {
				live = o.at
			}
		}
		if live != c.live {
			t.Errorf("%s: the pool is of %d, want %d", name, live, c.live)
		}
	}
}

// TestMemoryOrder has calls of several threads in any order, in several segments, and processes that end or run another
// program: what is alive when a window begins is what an observer of the calls would have counted.
func TestMemoryOrder(t *testing.T) {
	b := newBench(t, 3*time.Second, 1<<30)
	b.define()
	at := b.now + second
	b.add(allocating(at, 5, 64))
	b.add(allocating(at+20_000, 5, 32)) // of memory that another thread has freed
	b.tick(second / 2)
	b.add(freeing(at+10_000, 5))
	b.add(freeing(at+30_000, 77)) // nothing is known of it
	other := *allocating(at, 9, 128)
	other.PID = pid + 1
	b.add(&tracelog.Process{PID: pid + 1, Start: at - second/2})
	b.add(&other)
	third := other
	third.PID = pid + 2
	b.add(&tracelog.Process{PID: pid + 2, Start: at - second/2})
	b.add(&third)
	failed, open := allocating(at, 11, 1), allocating(at, 12, 1)
	failed.Ret, open.Flags = 2, tracelog.CallUnfinished
	b.add(failed)
	b.add(open)
	b.tick(second)
	b.add(&tracelog.ProcessEnd{PID: pid + 1, Time: b.now})
	b.add(&tracelog.Process{PID: pid + 2, Start: b.now}) // runs another program
	for range 12 {
		b.tick(second / 2)
	}
	s, got := b.snapshot(b.now)
	var want []string
	for _, x := range []*tracelog.Memory{memoryRecord(s.Held.From, 5, 32, 1), memoryRecord(s.Held.From, 1<<40, 4096, 1)} {
		want = with(want, x, true)
	}
	goldentest.Same(t, want, got[tracelog.KindMemory], "result")
}
