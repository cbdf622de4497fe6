package join

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Kinds of memory, CUpti_ActivityMemoryKind.
const (
	pageable = iota + 1
	pinned
	device
	array
	managed
	deviceStatic
	managedStatic
)

// values are what counters say, by process and name.
type values = map[string]string

// A memoryRun follows the memory of some processes and notes what is emitted.
type memoryRun struct {
	*memoryUsage
	processes map[string]*programMemory
	order     []*programMemory
	counters  map[string][]byte // their values, as time=value
	events    []string          // the allocations and releases
}

func newMemoryRun() *memoryRun {
	r := &memoryRun{processes: make(map[string]*programMemory), counters: make(map[string][]byte)}
	r.memoryUsage = newMemoryUsage(newSpanOutput(r), 0)
	return r
}

func (r *memoryRun) Emit(e timeline.Event) {
	switch e := e.(type) {
	case *timeline.CounterValue:
		name := e.Counter.Process.Name + " " + e.Counter.Name
		r.counters[name] = fmt.Appendf(r.counters[name], " %d=%d", e.Time, e.Value)
	case *timeline.Allocation:
		what := "allocates"
		if e.Release {
			what = "releases"
		}
		r.events = append(r.events, fmt.Sprintf("%d %s %s %#x: %d bytes of kind %d on GPU %d, call %d",
			e.Time, e.Process.Name, what, e.Address, e.Bytes, e.Kind, e.GPU, e.Correlation))
	case *timeline.OutOfMemory:
		r.events = append(r.events, fmt.Sprintf("%d %s finds no memory for %d bytes, GPU %d known %t, by %s",
			e.Time, e.Process.Name, e.Bytes, e.GPU, e.KnownGPU, e.Call.Name))
	default:
		panic(fmt.Sprintf("an event of type %T", e))
	}
}

func (r *memoryRun) values() values {
	all := make(values)
	for name, text := range r.counters {
		all[name] = string(text)
	}
	return all
}

func (r *memoryRun) process(name string) *programMemory {
	p := r.processes[name]
	if p == nil {
		p = r.memoryUsage.process(&timeline.Process{Name: name}, func(device uint32) uint32 { return device })
		r.processes[name] = p
		r.order = append(r.order, p)
	}
	return p
}

// An operation is what a process does with memory, or its end.
type operation struct {
	process string
	at      uint64
	what    uint32 // CUpti_ActivityMemoryOperationType; ends
	kind    uint32
	gpu     uint32
	address uint64
	bytes   uint64
}

const (
	allocates = 1
	releases  = 2
	ends      = math.MaxUint32
)

func (r *memoryRun) do(operations ...operation) {
	for i, o := range operations {
		p := r.process(o.process)
		if o.what == ends {
			p.endsAt(o.at)
			continue
		}
		p.addRecord(&tracelog.Memory{Operation: o.what, MemoryKind: o.kind, Device: o.gpu, Address: o.address, Bytes: o.bytes, Correlation: uint32(i)}, o.at)
	}
}

// finish goes through everything.
func (r *memoryRun) finish() {
	r.advance(0, true)
	for _, p := range r.order {
		p.finish()
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		operations []operation
		peak       uint64
		want       values
	}{
		"allocation and release": {
			[]operation{{"a", 10, allocates, device, 0, 0x1, 100}, {"a", 20, allocates, device, 0, 0x2, 50}, {"a", 30, releases, device, 0, 0x1, 100}}, 150,
			values{"a device memory (GPU 0)": " 10=100 20=150 30=50"},
		},
		"out of order": {
			[]operation{{"a", 30, releases, device, 0, 0x1, 100}, {"a", 10, allocates, device, 0, 0x1, 100}}, 100,
			values{"a device memory (GPU 0)": " 10=100 30=0"},
		},
		"several at one time": {
			[]operation{{"a", 10, allocates, device, 0, 0x1, 100}, {"a", 10, allocates, device, 0, 0x2, 50}, {"a", 10, releases, device, 0, 0x1, 100}}, 150,
			values{"a device memory (GPU 0)": " 10=50"},
		},
		"uses of memory": {
			[]operation{
				{"a", 1, allocates, device, 0, 0x1, 1}, {"a", 2, allocates, array, 0, 0x2, 2}, {"a", 3, allocates, deviceStatic, 0, 0x3, 3},
				{"a", 4, allocates, managed, 0, 0x4, 10}, {"a", 5, allocates, managedStatic, 0, 0x5, 20},
				{"a", 6, allocates, pageable, 0, 0x6, 100}, {"a", 7, allocates, 99, 0, 0x7, 200},
			}, 6,
			values{
				"a device memory (GPU 0)":  " 1=1 2=3 3=6",
				"a managed memory (GPU 0)": " 4=10 5=30",
				"a other memory (GPU 0)":   " 6=100 7=300",
			},
		},
		"pinned memory is of no GPU": {
			[]operation{{"a", 10, allocates, pinned, 0, 0x1, 100}, {"a", 20, allocates, pinned, 1, 0x2, 50}}, 0,
			values{"a pinned memory": " 10=100 20=150"},
		},
		"GPUs apart": {
			[]operation{{"a", 10, allocates, device, 0, 0x1, 100}, {"a", 20, allocates, device, 1, 0x2, 70}, {"a", 30, allocates, device, 1, 0x3, 20}}, 100,
			values{
				"a device memory (GPU 1)": " 20=70 30=90",
				"a device memory (GPU 0)": " 10=100",
			},
		},
		"peak of two processes": {
			[]operation{
				{"a", 10, allocates, device, 0, 0x1, 100}, {"b", 20, allocates, device, 0, 0x1, 70},
				{"a", 30, releases, device, 0, 0x1, 100}, {"b", 40, allocates, device, 0, 0x2, 60},
			}, 170,
			values{
				"a device memory (GPU 0)": " 10=100 30=0",
				"b device memory (GPU 0)": " 20=70 40=130",
			},
		},
		"release of what is not known": {
			[]operation{{"a", 10, allocates, device, 0, 0x1, 100}, {"a", 20, releases, device, 0, 0x2, 40}}, 100,
			values{"a device memory (GPU 0)": " 10=100"},
		},
		"released twice": {
			[]operation{{"a", 10, allocates, device, 0, 0x1, 100}, {"a", 15, allocates, device, 0, 0x2, 7}, {"a", 20, releases, device, 0, 0x1, 100}, {"a", 30, releases, device, 0, 0x1, 100}}, 107,
			values{"a device memory (GPU 0)": " 10=100 15=107 20=7"},
		},
		"after the end of the process": {
			[]operation{{"a", 10, allocates, device, 0, 0x1, 100}, {"a", 20, ends, 0, 0, 0, 0}, {"a", 30, allocates, device, 0, 0x1, 7}, {"a", 40, releases, device, 0, 0x1, 7}}, 100,
			values{"a device memory (GPU 0)": " 10=100 20=0 30=7 40=0"},
		},
		"release by another process": {
			[]operation{{"a", 10, allocates, device, 0, 0x1, 100}, {"b", 20, releases, device, 0, 0x1, 100}}, 100,
			values{"a device memory (GPU 0)": " 10=100"},
		},
		"release counts what was allocated": {
			[]operation{{"a", 10, allocates, device, 1, 0x1, 100}, {"a", 20, releases, managed, 0, 0x1, 1}}, 100,
			values{"a device memory (GPU 1)": " 10=100 20=0"},
		},
		"lost release": {
			[]operation{{"a", 10, allocates, device, 0, 0x1, 100}, {"a", 20, allocates, device, 0, 0x1, 30}, {"a", 30, releases, device, 0, 0x1, 30}}, 100,
			values{"a device memory (GPU 0)": " 10=100 20=30 30=0"},
		},
		"lost release of another use": {
			[]operation{{"a", 10, allocates, device, 0, 0x1, 100}, {"a", 20, allocates, pinned, 0, 0x1, 30}}, 100,
			values{
				"a device memory (GPU 0)": " 10=100 20=0",
				"a pinned memory":         " 20=30",
			},
		},
		"process ends": {
			[]operation{
				{"a", 10, allocates, device, 0, 0x1, 100}, {"a", 11, allocates, pinned, 0, 0x2, 7}, {"a", 12, allocates, managed, 0, 0x3, 9},
				{"a", 13, releases, managed, 0, 0x3, 9}, {"b", 10, allocates, device, 0, 0x1, 30}, {"a", 20, ends, 0, 0, 0, 0},
				{"b", 30, allocates, device, 0, 0x2, 40},
			}, 130,
			values{
				"a managed memory (GPU 0)": " 12=9 13=0",
				"a device memory (GPU 0)":  " 10=100 20=0",
				"a pinned memory":          " 11=7 20=0",
				"b device memory (GPU 0)":  " 10=30 30=70",
			},
		},
		"release as the process ends": {
			[]operation{{"a", 20, ends, 0, 0, 0, 0}, {"a", 10, allocates, device, 0, 0x1, 100}, {"a", 20, allocates, device, 0, 0x2, 50}}, 150,
			values{"a device memory (GPU 0)": " 10=100 20=0"},
		},
		"other operations": {
			[]operation{{"a", 10, 0, device, 0, 0x1, 100}, {"a", 20, 3, device, 0, 0x1, 100}}, 0, values{},
		},
		"sizes that make no sense": {
			[]operation{{"a", 10, allocates, pinned, 0, 0x1, math.MaxUint64}, {"a", 20, allocates, pinned, 0, 0x2, math.MaxUint64}, {"a", 30, releases, pinned, 0, 0x1, 5}}, 0,
			values{"a pinned memory": " 10=9223372036854775807 20=9223372036854775807 30=0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newMemoryRun()
			r.do(c.operations...)
			r.finish()
			goldentest.Same(t, c.want, r.values(), "counters")
			if r.Peak != c.peak {
				t.Errorf("peak of %d bytes, want %d", r.Peak, c.peak)
			}
		})
	}
}

// Allocations and releases are events, with all that their records say.
func TestEvents(t *testing.T) {
	t.Parallel()
	r := newMemoryRun()
	r.do(
		operation{"a", 30, releases, device, 1, 0x10, 100},
		operation{"b", 20, allocates, pinned, 0, 0x20, 50},
		operation{"a", 10, allocates, device, 1, 0x10, 100},
		operation{"a", 40, releases, managed, 0, 0x99, 7}, // allocated before recording
		operation{"a", 50, 3, device, 0, 0x10, 100},       // no operation that is known
		operation{"a", 60, ends, 0, 0, 0, 0})
	r.finish()
	want := []string{
		"10 a allocates 0x10: 100 bytes of kind 3 on GPU 1, call 2",
		"20 b allocates 0x20: 50 bytes of kind 2 on GPU 0, call 1",
		"30 a releases 0x10: 100 bytes of kind 3 on GPU 1, call 0",
		"40 a releases 0x99: 7 bytes of kind 5 on GPU 0, call 3",
	}
	goldentest.Same(t, want, r.events, "events")
}

// What may still have something before it waits.
func TestAdvanceMemory(t *testing.T) {
	t.Parallel()
	r := newMemoryRun()
	step := func(low uint64, events int, want values, operations ...operation) {
		t.Helper()
		r.do(operations...)
		r.advance(low, false)
		if len(r.events) != events {
			t.Errorf("before %d: %d events, want %d", low, len(r.events), events)
		}
		goldentest.Same(t, want, r.values(), "before %d: counters", low)
	}
	const counter = "a device memory (GPU 0)"
	step(10, 0, values{}, operation{"a", 10, allocates, device, 0, 0x1, 100}, operation{"a", 30, releases, device, 0, 0x1, 100})
	step(11, 1, values{}) // a later value of that time would count
	step(25, 2, values{counter: " 10=100"}, operation{"a", 20, allocates, device, 0, 0x2, 50})
	step(25, 2, values{counter: " 10=100"})
	step(31, 3, values{counter: " 10=100 20=150"})
	r.finish()
	goldentest.Same(t, values{counter: " 10=100 20=150 30=50"}, r.values(), "at the end: counters")
}

// Once too many allocations are live, further ones are events that no counter counts.
func TestMaxLive(t *testing.T) {
	t.Parallel()
	r := newMemoryRun()
	r.do(operation{"a", 10, allocates, device, 0, 0x1, 100}, operation{"b", 11, allocates, device, 0, 0x1, 10}, operation{"b", 12, allocates, device, 0, 0x2, 10})
	r.advance(20, false)
	r.Room.Most = 3
	r.do(
		operation{"a", 20, allocates, device, 0, 0x2, 100}, // no room
		operation{"a", 30, releases, device, 0, 0x2, 100},
		operation{"a", 40, releases, device, 0, 0x1, 100}, // room for one
		operation{"a", 50, allocates, device, 0, 0x3, 7},
		operation{"a", 60, allocates, device, 0, 0x4, 100},
		operation{"a", 70, allocates, device, 0, 0x3, 8}, // in its own place
		operation{"b", 80, ends, 0, 0, 0, 0},             // room for two
		operation{"a", 90, allocates, device, 0, 0x5, 1}, operation{"a", 91, allocates, device, 0, 0x6, 1}, operation{"a", 92, allocates, device, 0, 0x7, 1})
	r.finish()
	want := values{"a device memory (GPU 0)": " 10=100 40=0 50=7 70=8 90=9 91=10", "b device memory (GPU 0)": " 11=10 12=20 80=0"}
	goldentest.Same(t, want, r.values(), "counters")
	if r.Room.Dropped != 3 || len(r.events) != 12 {
		t.Errorf("%d allocations dropped and %d events, want 3 and 12", r.Room.Dropped, len(r.events))
	}
}

// poolRecord is a record of a local pool.
func poolRecord(operation uint32, address, size, used uint64) *tracelog.MemoryPool {
	return &tracelog.MemoryPool{Operation: operation, PoolKind: cudaapi.LocalPool, Address: address, Size: size, Used: used}
}

// fromPool is an allocation or a release from a pool.
func fromPool(operation uint32, address, bytes, pool, size, used uint64) *tracelog.Memory {
	return &tracelog.Memory{Operation: operation, MemoryKind: device, Address: address, Bytes: bytes, Pool: pool, PoolSize: size, PoolUsed: used}
}

// TestPools sums the pools of a process on each GPU. The pools of another process, and imported ones, do
// not count; memory of no known pool changes nothing; a destroyed pool and an ended process have none.
func TestPools(t *testing.T) {
	t.Parallel()
	const created, destroyed, trimmed = 1, 2, 3
	r := newMemoryRun()
	a, b := r.process("a"), r.process("b")
	a.addPool(poolRecord(created, 1, 1000, 0), 10, 0)
	a.addPool(poolRecord(created, 2, 500, 0), 20, 0)
	a.addRecord(fromPool(allocates, 0x1, 100, 1, 1000, 100), 30)
	a.addRecord(fromPool(allocates, 0x2, 2000, 1, 3000, 2100), 40) // the pool grows
	b.addRecord(fromPool(allocates, 0x1, 70, 1, 700, 70), 45)
	onOther := fromPool(allocates, 0x3, 9, 1, 90, 9)
	onOther.Device = 1
	a.addRecord(onOther, 46)                              // of the same address, on another GPU
	a.addRecord(fromPool(allocates, 0x4, 5, 1, 0, 0), 47) // CUPTI does not tell
	a.addPool(&tracelog.MemoryPool{Operation: created, PoolKind: 2, Address: 3, Size: 12345}, 48, 0)
	a.addRecord(fromPool(releases, 0x2, 2000, 1, 3000, 100), 50)
	a.addPool(poolRecord(trimmed, 1, 1000, 100), 60, 0)
	a.addPool(poolRecord(destroyed, 2, 500, 0), 70, 0)
	a.endsAt(80)
	r.finish()
	want := values{
		"a memory pools, reserved (GPU 0)": " 10=1000 20=1500 40=3500 60=1500 70=1000 80=0",
		"a memory pools, used (GPU 0)":     " 30=100 40=2100 50=100 80=0",
		"a memory pools, reserved (GPU 1)": " 46=90 80=0",
		"a memory pools, used (GPU 1)":     " 46=9 80=0",
		"b memory pools, reserved (GPU 0)": " 45=700",
		"b memory pools, used (GPU 0)":     " 45=70",
		"a device memory (GPU 0)":          " 30=100 40=2100 47=2105 50=105 80=0",
		"a device memory (GPU 1)":          " 46=9 80=0",
		"b device memory (GPU 0)":          " 45=70",
	}
	if diff := cmp.Diff(want, r.values()); diff != "" {
		t.Error(diff)
	}
	if r.Peak != 2175 {
		t.Errorf("a peak of %d: pools count with their allocations", r.Peak)
	}
}

// TestPoolsBounded keeps a bounded number of pools, whatever their sizes.
func TestPoolsBounded(t *testing.T) {
	t.Parallel()
	r := newMemoryRun()
	a := r.process("a")
	const bound = 1000
	r.Room.Most = bound
	for i := range uint64(bound + 3) {
		a.addPool(poolRecord(1, 1+i, 1, 0), i, 0)
	}
	a.addPool(poolRecord(1, 1, math.MaxUint64, math.MaxUint64), bound+9, 0)
	a.endsAt(bound + 10)
	r.finish()
	if r.Room.Dropped != 3 || r.pools != 0 {
		t.Errorf("%d pools dropped, %d stay; want 3 and 0", r.Room.Dropped, r.pools)
	}
	if got, want := r.values()["a memory pools, reserved (GPU 0)"], " 999=1000 1009=9223372036854775807 1010=0"; !strings.HasSuffix(got, want) {
		t.Errorf("the sum ends with%s, want%s", got[max(0, len(got)-60):], want)
	}
}

// A call that finds no memory comes in the order of allocations. Its GPU is the one of its arguments, of its thread, or
// the only one that the process has memory on.
func TestRefused(t *testing.T) {
	t.Parallel()
	r := newMemoryRun()
	a := r.process("a")
	by := timeline.Call{Function: &timeline.Function{Name: "cuMemCreate"}}
	refuse := func(at uint64, asked cudaapi.MemoryCall) { a.addRefused(7, &asked, at, &by) }
	unknown := cudaapi.MemoryCall{Kind: cudaapi.DeviceKind, Device: cudaapi.NoDevice}
	refuse(5, unknown)
	r.do(operation{"a", 10, allocates, device, 1, 0x1, 100}, operation{"a", 12, allocates, pinned, 0, 0x4, 1})
	refuse(15, unknown)
	r.do(operation{"a", 20, allocates, device, 0, 0x2, 100}, operation{"a", 21, allocates, device, 2, 0x3, 100})
	refuse(25, unknown)
	refuse(30, cudaapi.MemoryCall{Does: cudaapi.Creates, Device: 2, Bytes: 9})
	refuse(35, cudaapi.MemoryCall{Does: cudaapi.Allocates, Device: cudaapi.NoDevice, Bytes: 8})
	r.finish()
	var got []string
	for _, e := range r.events {
		if strings.Contains(e, "no memory") {
			got = append(got, e)
		}
	}
	want := []string{
		"5 a finds no memory for 0 bytes, GPU 0 known false, by cuMemCreate",
		"15 a finds no memory for 0 bytes, GPU 1 known true, by cuMemCreate",
		"25 a finds no memory for 0 bytes, GPU 2 known false, by cuMemCreate",
		"30 a finds no memory for 9 bytes, GPU 2 known true, by cuMemCreate",
		"35 a finds no memory for 8 bytes, GPU 0 known true, by cuMemCreate",
	}
	goldentest.Same(t, want, got, "result")
}
