// Package memory tracks the memory that processes allocate.
//
// Input: the allocations, the releases and the states of memory pools that CUPTI recorded, of all
// processes of a log. Output: an event for each allocation and release, counters of live bytes, and
// counters of what pools have reserved and of what is used of that. A counter belongs to a process, a
// GPU and a use of memory.
package memory

import (
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/ordered"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
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
	Peak    uint64 // largest number of live bytes of device memory on one GPU
	Dropped uint64 // allocations beyond MaxLive

	DroppedPools uint64 // states of pools beyond MaxPools

	out     Emitter
	device  map[uint32]uint64 // live bytes of device memory, by GPU
	live    int               // allocations
	pools   int               // pools with memory
	pending ordered.List[event]
}

// NewUsage returns the usage of a log.
func NewUsage(out Emitter) *Usage {
	return &Usage{out: out, device: make(map[uint32]uint64), pending: ordered.NewList((*event).before)}
}

// A Process tracks the memory of one process.
type Process struct {
	out      *timeline.Process
	usage    *Usage
	counters map[counterKey]*counter
	order    []*counter
	live     map[uint64]allocation // by address
	pools    map[poolKey]poolState
}

// An allocation is a block of memory that is live.
type allocation struct {
	counter *counter
	bytes   uint64
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

// An event is an allocation or a release, the state of a pool alone, or the end of a process, which
// releases its memory.
type event struct {
	process   *Process
	at        uint64
	ends      bool
	operation uint32 // 0 for the state of a pool
	kind      uint32
	gpu       uint32
	corr      uint32
	address   uint64
	bytes     uint64
	pool      uint64 // address of the pool whose state it tells, or 0
	state     poolState
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && !e.ends && o.ends
}

// Process returns the tracker of a process's memory.
func (u *Usage) Process(p *timeline.Process) *Process {
	return &Process{out: p, usage: u, counters: make(map[counterKey]*counter), live: make(map[uint64]allocation),
		pools: make(map[poolKey]poolState)}
}

// Ends sets the end of the process.
func (p *Process) Ends(at uint64) {
	p.usage.pending.Add(event{process: p, at: at, ends: true})
}

// Add takes an allocation or a release at a time, on a GPU of the timeline.
func (p *Process) Add(m *tracelog.Memory, at uint64, gpu uint32) {
	e := event{process: p, at: at, operation: m.Operation, kind: m.MemoryKind, gpu: gpu, corr: m.Correlation, address: m.Address, bytes: m.Bytes}
	if m.PoolSize != 0 {
		e.pool, e.state = m.Pool, poolState{m.PoolSize, m.PoolUsed}
	}
	p.usage.pending.Add(e)
}

// Advance processes the events before low, or with all every event, over all processes in the
// order of time.
func (u *Usage) Advance(low uint64, all bool) {
	full := u.pending.Len() > maxHeld
	u.pending.Drain(func(e *event) bool { return e.at < low || all || full }, func(e *event) {
		if e.ends {
			e.process.end(e.at)
		} else {
			e.process.event(e)
		}
	})
}

func (p *Process) event(e *event) {
	if e.pool != 0 {
		p.setPool(poolKey{e.gpu, e.pool}, e.at, e.state)
	}
	allocated, released := e.operation == cudaapi.MemoryAllocated, e.operation == cudaapi.MemoryReleased
	if !allocated && !released {
		return
	}
	p.usage.out.Emit(&timeline.Allocation{Process: p.out, Time: e.at, Address: e.address, Bytes: e.bytes,
		GPU: e.gpu, Kind: e.kind, Correlation: e.corr, Release: released})
	// A second allocation at a live address means that a release was lost.
	if b, ok := p.live[e.address]; ok {
		delete(p.live, e.address)
		p.usage.live--
		p.set(b.counter, e.at, b.counter.live-b.bytes)
	}
	if allocated {
		p.allocate(e)
	}
}

func (p *Process) allocate(e *event) {
	if p.usage.live >= MaxLive {
		p.usage.Dropped++
		return
	}
	c := p.counter(e)
	bytes := min(e.bytes, math.MaxInt64-min(c.live, math.MaxInt64)) // no sum wraps, whatever the log holds
	p.live[e.address] = allocation{c, bytes}
	p.usage.live++
	p.set(c, e.at, c.live+bytes)
}

func (p *Process) counter(e *event) *counter {
	use := cudaapi.MemoryUseOf(e.kind)
	c := p.counterOf(use.String()+" memory", e.gpu, use == cudaapi.PinnedMemory)
	c.onDevice = use == cudaapi.DeviceMemory
	return c
}

func (p *Process) counterOf(use string, gpu uint32, host bool) *counter {
	key, name := counterKey{gpu, use}, ""
	if host {
		key.gpu = math.MaxUint32
	}
	c := p.counters[key]
	if c != nil {
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
	p.usage.live -= len(p.live)
	p.usage.pools -= len(p.pools)
	clear(p.live)
	clear(p.pools)
}

// Finish emits the last values.
func (p *Process) Finish() {
	for _, c := range p.order {
		p.say(c)
	}
}
