package join

import (
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/livemem"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// MaxAllocations bounds the live allocations whose size is kept, and the pools whose state is.
const MaxAllocations = 1 << 20

// A memoryUsage counts the memory that the processes of a log allocate, from what calls do to memory, or from records
// of allocations and releases, and of pools. It emits an event for each allocation and release, and counters: live
// bytes, bytes that pools have reserved, bytes of pools in use. A counter belongs to a process, a GPU and a use of
// memory. Package livemem knows what is alive. All processes have one memoryUsage, since their sum on a GPU is needed.
type memoryUsage struct {
	Peak uint64       // largest number of live bytes of device memory on one GPU
	Room livemem.Room // of all processes

	from, before uint64 // changes before from, and from before on, are another joiner's; 0 for none

	out     emitter
	budget  *Bound
	device  map[uint32]uint64 // live bytes of device memory, by GPU
	pools   int               // pools with memory
	pending inOrder[memoryEvent]
	held    map[heldKey]*timeline.Allocation // what is live; nil where nobody asks for it later
}

// newMemoryUsage returns the usage of a log.
func newMemoryUsage(out *spanOutput, before uint64) *memoryUsage {
	u := &memoryUsage{out: out.emitter, budget: &out.budget.Records, before: before, device: make(map[uint32]uint64)}
	u.Room.Most = MaxAllocations
	at := func(e *memoryEvent) uint64 { return e.at }
	u.pending = newInOrder(&out.budget.Records, &out.found.Late, at, (*memoryEvent).before)
	if before > 0 {
		u.held = make(map[heldKey]*timeline.Allocation)
	}
	return u
}

// counts reports whether a change of memory at a time is counted here.
func (u *memoryUsage) counts(at uint64) bool { return at >= u.from && (u.before == 0 || at < u.before) }

// A programMemory tracks the memory of one process.
type programMemory struct {
	out      *timeline.Process
	usage    *memoryUsage
	counters map[memoryCounterKey]*memoryCounter
	order    []*memoryCounter
	latest   *memoryCounter             // that was asked for
	gpu      func(device uint32) uint32 // the GPU of the timeline
	live     *livemem.ProcessMemory
	corr     uint32         // correlation ID of the event under way
	tid      uint32         // its thread
	by       *timeline.Call // its call, nil if it is not known
	pools    map[poolKey]poolState
}

// A memoryCounter counts the live bytes of one use of memory by a process on one GPU.
type memoryCounter struct {
	memoryCounterKey
	out    *timeline.Counter
	live   uint64
	at     uint64 // when live got its value
	unsent bool   // the value of live has not been emitted
}

// A memoryCounterKey names a counter of a process. Pinned memory belongs to no GPU.
type memoryCounterKey struct {
	gpu uint32
	use string
}

// A memoryEvent is what a call does to memory, a record of it, the state of a pool alone, or the end of a
// process, which releases its memory.
type memoryEvent struct {
	process *programMemory
	at      uint64
	start   uint64 // of the call
	what    memoryCause
	tid     uint32 // of the call
	corr    uint32 // of the record
	call    cudaapi.MemoryCall
	by      *timeline.Call // that allocates, once it is known; nil for none
	pool    *poolEvent     // nil if it tells no pool's state
}

type memoryCause uint8

const (
	byCall memoryCause = iota
	byRecord
	ofPool
	ofEnd
	ofRefusal // a call failed because there was no memory
)

func (e *memoryEvent) before(o *memoryEvent) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if e.what == ofEnd || o.what == ofEnd {
		return e.what != ofEnd
	}
	return e.start < o.start
}

// process returns the tracker of a process's memory. gpu returns the GPU of the timeline that one of the process's
// devices is.
func (u *memoryUsage) process(of *timeline.Process, gpu func(device uint32) uint32) *programMemory {
	p := &programMemory{out: of, usage: u, gpu: gpu,
		counters: make(map[memoryCounterKey]*memoryCounter), pools: make(map[poolKey]poolState)}
	p.live = livemem.New(&u.Room, p.changed)
	return p
}

// endsAt sets the end of the process.
func (p *programMemory) endsAt(at uint64) {
	p.usage.pending.add(memoryEvent{process: p, at: at, what: ofEnd})
}

// addCall takes what a call of a thread does that has returned. It returns where to describe a call that allocates,
// nil for any other one.
func (p *programMemory) addCall(tid uint32, c *cudaapi.MemoryCall, start, end uint64) *timeline.Call {
	e := memoryEvent{process: p, at: livemem.At(c, start, end), what: byCall, tid: tid, start: start, call: *c}
	if c.Does == cudaapi.Allocates || c.Does == cudaapi.Creates {
		e.by = new(timeline.Call)
	}
	p.usage.pending.add(e)
	return e.by
}

// addRecord takes the record of an allocation or a release, at a time.
func (p *programMemory) addRecord(m *tracelog.Memory, at uint64) {
	e := memoryEvent{process: p, at: at, what: byRecord, corr: m.Correlation, call: livemem.OfRecord(m)}
	if m.PoolSize != 0 && m.Pool != 0 {
		e.pool = &poolEvent{poolKey{p.gpu(m.Device), m.Pool}, poolState{m.PoolSize, m.PoolUsed}}
	}
	p.usage.pending.add(e)
}

// addRefused takes a call that failed because there was no device memory for what it asked for.
func (p *programMemory) addRefused(tid uint32, asked *cudaapi.MemoryCall, at uint64, by *timeline.Call) {
	p.usage.pending.add(memoryEvent{process: p, at: at, what: ofRefusal, tid: tid, call: *asked, by: by})
}

// refused shows such a call. The GPU is that of the call, or of its thread; where calls don't tell, the process's only
// one.
func (p *programMemory) refused(e *memoryEvent) {
	o := &timeline.OutOfMemory{Process: p.out, Time: e.at, Bytes: e.call.Bytes, Call: *e.by}
	switch {
	case e.call.Device != cudaapi.NoDevice:
		o.GPU, o.KnownGPU = p.gpu(e.call.Device), true
	case e.call.Does != 0:
		o.GPU, o.KnownGPU = p.gpu(p.live.DeviceOf(e.tid)), true
	default:
		n := 0
		for _, c := range p.order {
			if c.out.Device {
				o.GPU = c.gpu
				n++
			}
		}
		o.KnownGPU = n == 1
	}
	p.usage.out.Emit(o)
}

// advance processes the events before low, or with all every event, over all processes in the
// order of time.
func (u *memoryUsage) advance(low uint64, all bool) {
	u.pending.drain(low, all, func(e *memoryEvent) {
		e.at = u.pending.taken
		e.process.event(e)
	})
}

func (p *programMemory) event(e *memoryEvent) {
	if e.pool != nil {
		p.setPool(e.pool.poolKey, e.at, e.pool.poolState)
	}
	p.corr, p.tid, p.by = e.corr, e.tid, e.by
	switch e.what {
	case byCall:
		p.live.Call(e.tid, &e.call, e.at)
	case byRecord:
		p.live.Record(&e.call, e.at)
	case ofRefusal:
		p.refused(e)
	case ofEnd:
		p.end(e.at)
	}
}

// changed shows an allocation or a release, and counts it.
func (p *programMemory) changed(c *livemem.Change) {
	gpu := p.gpu(c.Device)
	a := &timeline.Allocation{Process: p.out, Time: c.Time, Address: c.Address, Bytes: c.Bytes,
		GPU: gpu, Kind: c.Kind, Correlation: p.corr, TID: p.tid, Release: c.Released}
	if p.by != nil {
		a.Call = *p.by
	}
	p.usage.out.Emit(a)
	if held := p.usage.held; held != nil {
		delete(held, heldKey{p, a.Address, c.Replaced.Kind})
		if c.Kept {
			held[heldKey{p, a.Address, a.Kind}] = a
		}
	}
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

func (p *programMemory) counter(kind, gpu uint32) *memoryCounter {
	use := cudaapi.MemoryUseOf(kind)
	of := timeline.Counter{GPU: gpu, Host: use == cudaapi.PinnedMemory, Device: use == cudaapi.DeviceMemory}
	return p.counterOf(memoryNames[use], of)
}

// memoryNames are the names of counters.
var memoryNames = [...]string{
	cudaapi.DeviceMemory:  cudaapi.DeviceMemory.String() + " memory",
	cudaapi.ManagedMemory: cudaapi.ManagedMemory.String() + " memory",
	cudaapi.PinnedMemory:  cudaapi.PinnedMemory.String() + " memory",
	cudaapi.OtherMemory:   cudaapi.OtherMemory.String() + " memory",
}

func (p *programMemory) counterOf(use string, of timeline.Counter) *memoryCounter {
	key := memoryCounterKey{of.GPU, use}
	if of.Host {
		key.gpu = math.MaxUint32
	}
	if p.latest != nil && p.latest.memoryCounterKey == key {
		return p.latest
	}
	c := p.counters[key]
	if c != nil {
		p.latest = c
		return c
	}
	out := of
	if out.Process, out.Name = p.out, use; !of.Host {
		out.Name = fmt.Sprintf("%s (GPU %d)", use, of.GPU)
	}
	c = &memoryCounter{memoryCounterKey: key, out: &out}
	p.counters[key] = c
	p.order = append(p.order, c)
	return c
}

// set sets a counter. Of several values at one time the last counts.
func (p *programMemory) set(c *memoryCounter, at, live uint64) {
	if c.out.Device {
		u := p.usage
		u.device[c.gpu] += live - c.live
		u.Peak = max(u.Peak, u.device[c.gpu])
	}
	if c.at != at {
		p.emit(c)
	}
	c.at, c.live, c.unsent = at, live, true
}

// emit emits the value that was set last.
func (p *programMemory) emit(c *memoryCounter) {
	if c.unsent {
		p.usage.out.Emit(&timeline.CounterValue{Counter: c.out, Time: c.at, Value: c.live})
		c.unsent = false
	}
}

// emitUntil emits the values that were set before a time. No later event of the process is before it.
func (p *programMemory) emitUntil(before uint64) {
	for _, c := range p.order {
		if c.at < before {
			p.emit(c)
		}
	}
}

// end releases the memory of the process.
func (p *programMemory) end(at uint64) {
	for _, c := range p.order {
		if c.live != 0 {
			p.set(c, at, 0)
		}
	}
	p.live.End()
	p.usage.pools -= len(p.pools)
	clear(p.pools)
}

// finish emits the last values.
func (p *programMemory) finish() {
	for _, c := range p.order {
		p.emit(c)
	}
}

// A poolKey names a memory pool of a process. An imported pool is its exporter's, and not counted.
type poolKey struct {
	gpu     uint32
	address uint64
}

// A poolState is how many bytes a pool has reserved, and how many of them are allocated.
type poolState struct{ reserved, used uint64 }

// A poolEvent is the state of a pool from a time on.
type poolEvent struct {
	poolKey
	poolState
}

// addPool takes the record of a pool at a time, on a GPU of the timeline.
func (p *programMemory) addPool(m *tracelog.MemoryPool, at uint64, gpu uint32) {
	if m.PoolKind != cudaapi.LocalPool || m.Address == 0 {
		return
	}
	e := memoryEvent{process: p, at: at, what: ofPool, pool: &poolEvent{poolKey: poolKey{gpu, m.Address}}}
	if m.Operation != cudaapi.PoolDestroyed {
		e.pool.poolState = poolState{m.Size, m.Used}
	}
	p.usage.pending.add(e)
}

// setPool sets the state of a pool. A pool without memory is not kept.
func (p *programMemory) setPool(k poolKey, at uint64, s poolState) {
	before, known := p.pools[k]
	if !known && p.usage.pools >= p.usage.Room.Most {
		p.usage.Room.Dropped++
		return
	}
	s.reserved = p.sumPools("memory pools, reserved", k.gpu, at, before.reserved, s.reserved)
	s.used = p.sumPools("memory pools, used", k.gpu, at, before.used, s.used)
	p.usage.pools -= len(p.pools)
	if s == (poolState{}) {
		delete(p.pools, k)
	} else {
		p.pools[k] = s
	}
	p.usage.pools += len(p.pools)
}

// sumPools replaces the part of a pool in a counter of all pools, and returns it: the sum does not wrap,
// whatever the log holds.
func (p *programMemory) sumPools(name string, gpu uint32, at, before, now uint64) uint64 {
	c := p.counterOf(name, timeline.Counter{GPU: gpu, Sampled: true})
	others := c.live - before
	now = min(now, math.MaxInt64-min(others, math.MaxInt64))
	if others+now != c.live {
		p.set(c, at, others+now)
	}
	return now
}

// A heldKey names memory that is live. Memory of the program that was registered may have the address of an allocation.
type heldKey struct {
	process *programMemory
	address uint64
	kind    uint32
}

// inherit takes over what another tracker of the process had live at a time, and shows it as allocated at that time.
func (p *programMemory) inherit(from *programMemory, at uint64, adopt func(*timeline.Allocation)) {
	p.live = from.live.Clone(&p.usage.Room, p.changed)
	for _, b := range p.live.Alive() {
		a := timeline.Allocation{Process: p.out, Address: b.Address, Bytes: b.Bytes, Kind: b.Kind}
		if known := from.usage.held[heldKey{from, b.Address, b.Kind}]; known != nil {
			a = *known
			adopt(&a)
		}
		a.Allocated, a.Time, a.Bytes, a.GPU = max(a.Time, 1), at, b.Bytes, p.gpu(b.Device)
		p.usage.out.Emit(&a)
		c := p.counter(b.Kind, a.GPU)
		p.set(c, at, c.live+b.Bytes)
	}
}
