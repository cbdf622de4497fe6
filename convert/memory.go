package convert

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

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

// A block is an allocation that is live.
type block struct {
	counter *memoryCounter
	bytes   uint64
}

// A memoryCounter follows one use of memory by one process on one GPU.
type memoryCounter struct {
	gpu    uint32
	use    use
	live   uint64
	points []Point
}

// counterKey names a counter of a process. Pinned memory belongs to no GPU.
type counterKey struct {
	gpu uint32
	use use
}

// memoryUse follows the memory of all processes, so that what they have on one
// GPU together is known.
type memoryUse struct {
	device map[uint32]uint64 // bytes of device memory that are live, by GPU
	peak   uint64            // the largest of those
}

// allocator follows the memory of one process.
type allocator struct {
	total    *memoryUse
	counters map[counterKey]*memoryCounter
	live     map[uint64]block // by address
}

// memoryEvent is a record with its session, for the order of time over all processes.
type memoryEvent struct {
	*tracelog.Memory
	session int
	end     bool // the session's end, with which its memory goes
}

// memory gives the processes their counters and returns the largest amount of
// device memory that was in use on one GPU.
func (l *loader) memory(t *Timeline) uint64 {
	var events []memoryEvent
	allocators := make([]*allocator, len(l.order))
	total := &memoryUse{device: make(map[uint32]uint64)}
	for n, s := range l.order {
		if len(s.memory) == 0 {
			continue
		}
		allocators[n] = &allocator{total, make(map[counterKey]*memoryCounter), make(map[uint64]block)}
		for i := range s.memory {
			events = append(events, memoryEvent{&s.memory[i], n, false})
		}
		if _, ended := l.ends[s.PID]; ended || s.until != 0 {
			events = append(events, memoryEvent{&tracelog.Memory{Time: l.horizon(s)}, n, true})
		}
	}
	slices.SortStableFunc(events, func(a, b memoryEvent) int { return cmp.Compare(a.Time, b.Time) })
	for _, e := range events {
		if e.end {
			allocators[e.session].finish(e.Time)
			continue
		}
		allocators[e.session].event(e.Memory, l.gpu(t, l.order[e.session].PID, e.Device))
	}
	for n, a := range allocators {
		if a != nil {
			l.order[n].Counters = a.list(l.order[n].PID)
			l.order[n].memory = nil
		}
	}
	return total.peak
}

func (a *allocator) event(m *tracelog.Memory, gpu uint32) {
	// A further allocation at a live address says that a release was lost.
	if b, ok := a.live[m.Address]; ok && (m.Operation == memoryReleased || m.Operation == memoryAllocated) {
		delete(a.live, m.Address)
		a.change(b.counter, m.Time, b.counter.live-b.bytes)
	}
	if m.Operation != memoryAllocated {
		return
	}
	key := counterKey{gpu, useOf(m.MemoryKind)}
	if key.use == usePinned {
		key.gpu = math.MaxUint32
	}
	c := a.counters[key]
	if c == nil {
		c = &memoryCounter{gpu: key.gpu, use: key.use}
		a.counters[key] = c
	}
	bytes := min(m.Bytes, math.MaxInt64-min(c.live, math.MaxInt64)) // no log makes it wrap
	a.live[m.Address] = block{c, bytes}
	a.change(c, m.Time, c.live+bytes)
}

// change sets a counter. Of several values at one time the last counts.
func (a *allocator) change(c *memoryCounter, at, live uint64) {
	if c.use == useDevice {
		a.total.device[c.gpu] += live - c.live
		a.total.peak = max(a.total.peak, a.total.device[c.gpu])
	}
	c.live = live
	if n := len(c.points); n > 0 && c.points[n-1].Time == at {
		c.points[n-1].Value = live
		return
	}
	c.points = append(c.points, Point{at, live})
}

// finish releases what a process had when it ended.
func (a *allocator) finish(at uint64) {
	for _, c := range a.counters {
		if c.live != 0 {
			a.change(c, at, 0)
		}
	}
	clear(a.live)
}

// list returns the counters by GPU, then by use.
func (a *allocator) list(pid uint32) []*Counter {
	keys := slices.SortedFunc(maps.Keys(a.counters), func(a, b counterKey) int {
		return cmp.Or(cmp.Compare(a.gpu, b.gpu), cmp.Compare(a.use, b.use))
	})
	var list []*Counter
	for _, k := range keys {
		name := useNames[k.use] + " memory"
		if k.use != usePinned {
			name += fmt.Sprintf(" (GPU %d)", k.gpu)
		}
		list = append(list, &Counter{PID: pid, Name: name, Points: a.counters[k].points})
	}
	return list
}

var poolOperations = [...]string{1: "created", 2: "destroyed", 3: "trimmed"}

// poolEvents gives a process the track of its memory pools.
func (l *loader) poolEvents(t *Timeline, s *session) {
	if len(s.pools) == 0 {
		return
	}
	var spans []Span
	for _, m := range s.pools {
		what := "changed"
		if int(m.Operation) < len(poolOperations) && m.Operation > 0 {
			what = poolOperations[m.Operation]
		}
		spans = append(spans, Span{
			Name: "pool " + what, Start: m.Time, End: m.Time, Instant: true,
			Args: []Detail{
				{Name: "pool", Value: m.Address, Hex: true},
				{Name: "gpu", Value: uint64(l.gpu(t, s.PID, m.Device))},
				{Name: "size", Value: m.Size},
				{Name: "release_threshold", Value: m.ReleaseThreshold},
				{Name: "min_bytes_to_keep", Value: m.MinBytesToKeep},
				{Name: "correlation", Value: uint64(m.Correlation)},
			},
		})
	}
	s.addTracks("memory pools", categoryMemory, spans)
	s.pools = nil
}
