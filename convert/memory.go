package convert

import (
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Operations of tracelog.Memory.
const (
	memoryAllocated = 1
	memoryReleased  = 2
)

// A use is what memory is counted as.
type use uint8

const (
	useDevice use = iota
	useManaged
	usePinned
	useOther
)

var useNames = [...]string{useDevice: "device", useManaged: "managed", usePinned: "pinned", useOther: "other"}

// useOf maps CUpti_ActivityMemoryKind: arrays and a module's own variables lie in
// device memory too.
func useOf(kind uint32) use {
	switch kind {
	case 3, 4, 6:
		return useDevice
	case 5, 7:
		return useManaged
	case 2:
		return usePinned
	}
	return useOther
}

// maxLive bounds the allocations of which the size is kept until their release.
const maxLive = 1 << 20

// An allocation is a block of memory that is live.
type allocation struct {
	counter *memoryCounter
	bytes   uint64
}

// A memoryCounter follows one use of memory by one process on one GPU.
type memoryCounter struct {
	out    *Counter
	gpu    uint32
	use    use
	live   uint64
	at     uint64 // when it became that
	valued bool   // live is to be shown
}

// counterKey names a counter of a process. Pinned memory belongs to no GPU.
type counterKey struct {
	gpu uint32
	use use
}

// memoryUse follows the memory of all processes, so that what they have on one
// GPU together is known.
type memoryUse struct {
	device  map[uint32]uint64 // bytes of device memory that are live, by GPU
	peak    uint64            // the largest of those
	live    int               // allocations
	dropped uint64            // allocations beyond maxLive
	pending []memoryEvent
	sorted  int
}

// allocator follows the memory of one session.
type allocator struct {
	total    *memoryUse
	counters map[counterKey]*memoryCounter
	order    []*memoryCounter
	live     map[uint64]allocation // by address
}

// memoryEvent is an allocation or a release, or with neither the end of the session, with
// which its memory goes.
type memoryEvent struct {
	s                *session
	at               uint64
	address, bytes   uint64
	operation, kinds uint32
	gpu              uint32
	end              bool
}

func (m *memoryEvent) before(o *memoryEvent) bool {
	return m.at < o.at || m.at == o.at && !m.end && o.end
}

// memory takes a block of allocations and releases.
func (c *converter) memory(b *tracelog.Block) {
	var m tracelog.Memory
	for i := range b.N {
		if !c.wanted(b, i) {
			continue
		}
		m.Read(b, i)
		at := c.timed(m.Time)
		s := c.processes[m.PID].parts.at(at)
		if s.memory == nil {
			s.memory = &allocator{&c.memoryUse, make(map[counterKey]*memoryCounter), nil, make(map[uint64]allocation)}
			if _, ended := c.ends[s.pid]; ended || s.until != 0 {
				c.memoryUse.pending = append(c.memoryUse.pending, memoryEvent{s: s, at: s.horizon, end: true})
			}
		}
		c.memoryUse.pending = append(c.memoryUse.pending, memoryEvent{s, at, m.Address, m.Bytes, m.Operation, m.MemoryKind, c.gpu(m.PID, m.Device), false})
	}
}

// advance goes through what happened before low, over all processes in the order of time.
func (u *memoryUse) advance(c *converter, low uint64) {
	insertSorted(u.pending, u.sorted, (*memoryEvent).before)
	n := 0
	for ; n < len(u.pending) && (u.pending[n].at < low || c.eof); n++ {
		e := &u.pending[n]
		if e.end {
			e.s.memory.finish(c, e.at)
		} else {
			e.s.memory.event(c, e)
		}
	}
	kept := copy(u.pending, u.pending[n:])
	clear(u.pending[kept:])
	u.pending, u.sorted = u.pending[:kept], kept
}

func (a *allocator) event(c *converter, m *memoryEvent) {
	// A further allocation at a live address says that a release was lost.
	if b, ok := a.live[m.address]; ok && (m.operation == memoryReleased || m.operation == memoryAllocated) {
		delete(a.live, m.address)
		a.total.live--
		a.change(c, b.counter, m.at, b.counter.live-b.bytes)
	}
	if m.operation != memoryAllocated {
		return
	}
	if a.total.live >= maxLive {
		a.total.dropped++
		return
	}
	counter := a.counter(m)
	bytes := min(m.bytes, math.MaxInt64-min(counter.live, math.MaxInt64)) // no log makes it wrap
	a.live[m.address] = allocation{counter, bytes}
	a.total.live++
	a.change(c, counter, m.at, counter.live+bytes)
}

func (a *allocator) counter(m *memoryEvent) *memoryCounter {
	key := counterKey{m.gpu, useOf(m.kinds)}
	if key.use == usePinned {
		key.gpu = math.MaxUint32
	}
	counter := a.counters[key]
	if counter == nil {
		name := useNames[key.use] + " memory"
		if key.use != usePinned {
			name += fmt.Sprintf(" (GPU %d)", key.gpu)
		}
		counter = &memoryCounter{gpu: key.gpu, use: key.use, out: &Counter{Process: m.s.Process, Name: name}}
		a.counters[key] = counter
		a.order = append(a.order, counter)
	}
	return counter
}

// change sets a counter. Of several values at one time the last counts.
func (a *allocator) change(c *converter, m *memoryCounter, at, live uint64) {
	if m.use == useDevice {
		a.total.device[m.gpu] += live - m.live
		a.total.peak = max(a.total.peak, a.total.device[m.gpu])
	}
	if m.at != at {
		m.show(c)
	}
	m.at, m.live, m.valued = at, live, true
}

// show gives the sink the value that was set last.
func (m *memoryCounter) show(c *converter) {
	if m.valued {
		c.sink.Counter(m.out)
		c.sink.Value(m.at, m.live)
		m.valued = false
	}
}

// finish releases what a process had when it ended.
func (a *allocator) finish(c *converter, at uint64) {
	for _, m := range a.order {
		if m.live != 0 {
			a.change(c, m, at, 0)
		}
	}
	a.total.live -= len(a.live)
	clear(a.live)
}

// showAll gives the sink the last values.
func (a *allocator) showAll(c *converter) {
	for _, m := range a.order {
		m.show(c)
	}
}
