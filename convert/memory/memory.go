// Package memory counts the memory that processes allocate.
//
// Input: what the calls of all processes of a log do to memory, or the allocations and releases that CUPTI recorded, and
// the states of memory pools. Output: an event for each allocation and release, counters of live bytes, and
// counters of what pools have reserved and of what is used of that. A counter belongs to a process, a
// GPU and a use of memory. What is alive is package livemem's knowledge.
package memory

import (
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/ordered"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/livemem"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// An Emitter takes events.
type Emitter interface{ Emit(timeline.Event) }

// MaxLive bounds the live allocations whose size is kept.
const MaxLive = 1 << 20

// maxHeld bounds the events that wait for earlier ones.
const maxHeld = 1 << 18

// Usage tracks the memory of all processes of a log, since their sum on one GPU is needed.
type Usage struct {
	Peak uint64       // largest number of live bytes of device memory on one GPU
	Room livemem.Room // of all processes

	DroppedPools uint64 // states of pools beyond MaxPools

	out     Emitter
	device  map[uint32]uint64 // live bytes of device memory, by GPU
	pools   int               // pools with memory
	pending ordered.List[event]
}

// NewUsage returns the usage of a log.
func NewUsage(out Emitter) *Usage {
	return &Usage{out: out, Room: livemem.Room{Most: MaxLive}, device: make(map[uint32]uint64), pending: ordered.NewList((*event).before)}
}

// A Process tracks the memory of one process.
type Process struct {
	out      *timeline.Process
	usage    *Usage
	counters map[counterKey]*counter
	order    []*counter
	latest   *counter                   // that was asked for
	gpu      func(device uint32) uint32 // the GPU of the timeline
	live     *livemem.Process
	corr     uint32 // correlation ID of the event under way
	pools    map[poolKey]poolState
}

// A counter counts the live bytes of one use of memory by a process on one GPU.
type counter struct {
	counterKey
	out    *timeline.Counter
	live   uint64
	at     uint64 // when live got its value
	unsaid bool   // the value of live has not been emitted
	// onDevice says that it counts the allocations in the GPU's memory.
	onDevice bool
}

// A counterKey names a counter of a process. Pinned memory belongs to no GPU.
type counterKey struct {
	gpu uint32
	use string
}

// An event is what a call does to memory, a record of CUPTI, the state of a pool alone, or the end of a process, which
// releases its memory.
type event struct {
	process *Process
	at      uint64
	start   uint64 // of the call
	what    what
	tid     uint32 // of the call
	corr    uint32 // of the record
	call    cudaapi.MemoryCall
	pool    *poolEvent // nil if it tells no pool's state
}

type what uint8

const (
	byCall what = iota
	byRecord
	ofPool
	ofEnd
)

func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if e.what == ofEnd || o.what == ofEnd {
		return e.what != ofEnd
	}
	return e.start < o.start
}

// Process returns the tracker of a process's memory. gpu returns the GPU of the timeline that one of the process's devices is.
func (u *Usage) Process(of *timeline.Process, gpu func(device uint32) uint32) *Process {
	p := &Process{out: of, usage: u, gpu: gpu, counters: make(map[counterKey]*counter), pools: make(map[poolKey]poolState)}
	p.live = livemem.New(&u.Room, p.changed)
	return p
}

// Ends sets the end of the process.
func (p *Process) Ends(at uint64) {
	p.usage.pending.Add(event{process: p, at: at, what: ofEnd})
}

// AddCall takes what a call of a thread does that has returned.
func (p *Process) AddCall(tid uint32, c *cudaapi.MemoryCall, start, end uint64) {
	p.usage.pending.Add(event{process: p, at: livemem.At(c, start, end), what: byCall, tid: tid, start: start, call: *c})
}

// Add takes an allocation or a release that CUPTI recorded, at a time.
func (p *Process) Add(m *tracelog.Memory, at uint64) {
	e := event{process: p, at: at, what: byRecord, corr: m.Correlation, call: livemem.OfRecord(m)}
	if m.PoolSize != 0 && m.Pool != 0 {
		e.pool = &poolEvent{poolKey{p.gpu(m.Device), m.Pool}, poolState{m.PoolSize, m.PoolUsed}}
	}
	p.usage.pending.Add(e)
}

// Advance processes the events before low, or with all every event, over all processes in the
// order of time.
func (u *Usage) Advance(low uint64, all bool) {
	full := u.pending.Len() > maxHeld
	u.pending.Drain(func(e *event) bool { return e.at < low || all || full }, func(e *event) {
		e.process.event(e)
	})
}

func (p *Process) event(e *event) {
	if e.pool != nil {
		p.setPool(e.pool.poolKey, e.at, e.pool.poolState)
	}
	p.corr = e.corr
	switch e.what {
	case byCall:
		p.live.Call(e.tid, &e.call, e.at)
	case byRecord:
		p.live.Record(&e.call, e.at)
	case ofEnd:
		p.end(e.at)
	}
}

// changed shows an allocation or a release, and counts it.
func (p *Process) changed(c *livemem.Change) {
	gpu := p.gpu(c.Device)
	p.usage.out.Emit(&timeline.Allocation{Process: p.out, Time: c.Time, Address: c.Address, Bytes: c.Bytes,
		GPU: gpu, Kind: c.Kind, Correlation: p.corr, Release: c.Released})
	if c.Replaces {
		if c.Replaced.Device != c.Device {
			gpu = p.gpu(c.Replaced.Device)
		}
		was := p.counter(c.Replaced.Kind, gpu)
		p.set(was, c.Time, was.live-c.Replaced.Bytes)
	}
	if c.Kept {
		now := p.counter(c.Kind, p.gpu(c.Device))
		p.set(now, c.Time, now.live+c.Bytes)
	}
}

func (p *Process) counter(kind, gpu uint32) *counter {
	use := cudaapi.MemoryUseOf(kind)
	c := p.counterOf(memoryNames[use], gpu, use == cudaapi.PinnedMemory)
	c.onDevice = use == cudaapi.DeviceMemory
	return c
}

// memoryNames are the names of counters.
var memoryNames = [...]string{
	cudaapi.DeviceMemory:  cudaapi.DeviceMemory.String() + " memory",
	cudaapi.ManagedMemory: cudaapi.ManagedMemory.String() + " memory",
	cudaapi.PinnedMemory:  cudaapi.PinnedMemory.String() + " memory",
	cudaapi.OtherMemory:   cudaapi.OtherMemory.String() + " memory",
}

func (p *Process) counterOf(use string, gpu uint32, host bool) *counter {
	key, name := counterKey{gpu, use}, ""
	if host {
		key.gpu = math.MaxUint32
	}
	if p.latest != nil && p.latest.counterKey == key {
		return p.latest
	}
	c := p.counters[key]
	if c != nil {
		p.latest = c
		return c
	}
	if name = use; !host {
		name = fmt.Sprintf("%s (GPU %d)", use, gpu)
	}
	c = &counter{counterKey: key, out: &timeline.Counter{Process: p.out, Name: name, GPU: gpu, Host: host}}
	p.counters[key] = c
	p.order = append(p.order, c)
	return c
}

// set sets a counter. Of several values at one time the last counts.
func (p *Process) set(c *counter, at, live uint64) {
	if c.onDevice {
		u := p.usage
		u.device[c.gpu] += live - c.live
		u.Peak = max(u.Peak, u.device[c.gpu])
	}
	if c.at != at {
		p.say(c)
	}
	c.at, c.live, c.unsaid = at, live, true
}

// say emits the value that was set last.
func (p *Process) say(c *counter) {
	if c.unsaid {
		p.usage.out.Emit(&timeline.CounterValue{Counter: c.out, Time: c.at, Value: c.live})
		c.unsaid = false
	}
}

// Say emits the values that were set before a time. No later event of the process is before it.
func (p *Process) Say(before uint64) {
	for _, c := range p.order {
		if c.at < before {
			p.say(c)
		}
	}
}

// end releases the memory of the process.
func (p *Process) end(at uint64) {
	for _, c := range p.order {
		if c.live != 0 {
			p.set(c, at, 0)
		}
	}
	p.live.End()
	p.usage.pools -= len(p.pools)
	clear(p.pools)
}

// Finish emits the last values.
func (p *Process) Finish() {
	for _, c := range p.order {
		p.say(c)
	}
}
