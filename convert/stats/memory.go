package stats

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// maxLive bounds the allocations that are live at one time, over all processes. A later one is
// counted, but its size is not.
const maxLive = 1 << 19

// maxUnfreed is the number of allocations in the report of those that were not freed.
const maxUnfreed = 10

// memory is the reports of allocations.
type memory struct {
	clock   *clock
	rows    groups[memoryKey, memoryUse]
	live    map[block]allocation
	dropped uint64 // allocations beyond maxLive
	gpus    map[uint32]*level
}

// A level is the device memory of a GPU in use, over all processes.
type level struct{ current, peak, peakAt uint64 }

// change adds bytes to a level.
func (m *memory) change(k *memoryKey, bytes, at uint64) {
	if k.use != cudaapi.DeviceMemory {
		return
	}
	l := m.gpus[k.gpu]
	if l == nil {
		l = new(level)
		m.gpus[k.gpu] = l
	}
	l.current = sketch.Sum(l.current, bytes)
	if l.current > l.peak {
		l.peak, l.peakAt = l.current, at
	}
}

// A memoryKey is a use of memory by a process. Pinned memory belongs to no GPU.
type memoryKey struct {
	process *timeline.Process
	use     cudaapi.MemoryUse
	gpu     uint32
}

// A memoryUse has the allocations of one use of memory.
type memoryUse struct {
	memoryKey
	allocations, frees    uint64
	unmatched             uint64 // frees of addresses without a live allocation
	replaced              uint64 // allocations at an address that was live: the free is missing
	allocated             uint64 // bytes, the sum over all allocations
	live                  uint64 // allocations
	current, peak, peakAt uint64
	threads               map[uint32]bool // that allocated or freed, by TID
}

// A block is an address in a process.
type block struct {
	process *timeline.Process
	address uint64
}

type allocation struct {
	use       *memoryUse
	bytes, at uint64
}

func newMemory(c *clock) memory {
	return memory{clock: c, rows: newGroups(memoryKey{}, func(k memoryKey) *memoryUse { return &memoryUse{memoryKey: k, threads: make(map[uint32]bool)} }), live: make(map[block]allocation),
		gpus: make(map[uint32]*level)}
}

func (m *memory) countAllocation(e *timeline.Allocation) {
	key := memoryKey{e.Process, cudaapi.MemoryUseOf(e.Kind), e.GPU}
	if key.use == cudaapi.PinnedMemory {
		key.gpu = 0
	}
	r := m.rows.of(key)
	r.threads[e.TID] = true
	at := block{e.Process, e.Address}
	known, was := m.live[at]
	if was {
		delete(m.live, at)
		known.use.live--
		known.use.current -= known.bytes
		if l := m.gpus[known.use.gpu]; l != nil && known.use.use == cudaapi.DeviceMemory {
			l.current -= min(l.current, known.bytes)
		}
	}
	switch {
	case !e.Release:
		if was {
			r.replaced++
		}
		m.allocate(r, at, e)
	case was:
		known.use.frees++
	default:
		r.unmatched++
	}
}

func (m *memory) allocate(r *memoryUse, at block, e *timeline.Allocation) {
	r.allocations++
	r.allocated = sketch.Sum(r.allocated, e.Bytes)
	if len(m.live) >= maxLive {
		m.dropped++
		return
	}
	bytes := sketch.Sum(r.current, e.Bytes) - r.current
	m.live[at] = allocation{r, bytes, e.Time}
	r.live++
	r.current += bytes
	m.change(&r.memoryKey, bytes, e.Time)
	if r.current > r.peak {
		r.peak, r.peakAt = r.current, e.Time
	}
}

var memoryReport = Report{
	Name: "memory", Title: "allocated memory by use",
	needs: allocations, whyEmpty: "no allocations were recorded",
	table: func(s *Sink, _ Facts) *table.Table { return s.memory.uses() },
	Keys: []Key{
		{"name", "the use: `device`, `managed`, `pinned` or `other`"},
		{"pid, gpu", "the process and the GPU; pinned memory has no GPU"},
		{"peak_bytes, peak_at_ns", "most bytes that were allocated at one time, and when"},
		{"current_bytes, not_freed", "bytes and allocations that were not freed when the process or the recording ended"},
		{"allocations, frees", "allocations, and frees of them"},
		{"allocated_bytes", "bytes of all allocations together"},
		{"unmatched_frees", "frees of memory that was allocated before recording, or not at all"},
		{"replaced", "allocations at an address that had not been freed: a free is missing in the log"},
		{"threads", "threads that allocated or freed; of several, the order decides the peak"},
	},
}

// uses returns the report of memory by use.
func (m *memory) uses() *table.Table {
	t := &table.Table{Columns: []table.Column{
		name("memory"), id("pid", "process", 3), id("gpu", "GPU", 3), column("peak_bytes", "peak", table.Bytes, 1),
		column("peak_at_ns", "peak at", table.Moment, 2), column("current_bytes", "at the end", table.Bytes, 1),
		count("allocations", "allocations", 2), count("frees", "frees", 2), count("not_freed", "not freed", 2),
		column("allocated_bytes", "", table.Bytes, 0), count("unmatched_frees", "", 0), count("replaced", "", 0), count("threads", "", 0),
	}}
	for _, r := range m.rows.list {
		if r.process == nil {
			continue
		}
		t.Rows = append(t.Rows, []any{r.use.String(), uint64(r.process.PID), r.device(), r.peak, m.clock.since(r.peakAt), r.current,
			r.allocations, r.frees, r.live, r.allocated, r.unmatched, r.replaced, uint64(len(r.threads))})
	}
	t.Sort("peak_bytes")
	if m.dropped > 0 {
		t.Notes = []string{"more allocations were live than are kept: the sizes of some are missing"}
	}
	return t
}

// device is the GPU of a use of memory, nil of pinned memory.
func (k *memoryKey) device() any {
	if k.use == cudaapi.PinnedMemory {
		return nil
	}
	return uint64(k.gpu)
}

var unfreedReport = Report{
	Name: "unfreed", Title: "largest allocations that were not freed", Detail: true,
	needs: allocations, whyEmpty: "no allocations that were not freed",
	table: func(s *Sink, _ Facts) *table.Table { return s.memory.unfreed() },
	Keys: []Key{
		{"name, pid, gpu", "as in `memory`"},
		{"bytes, at_ns, address", "size, moment and address of the allocation"},
	},
}

// unfreed returns the report of the largest allocations that were not freed.
func (m *memory) unfreed() *table.Table {
	t := &table.Table{Columns: []table.Column{
		name("memory"), id("pid", "process", 1), id("gpu", "GPU", 1), column("bytes", "bytes", table.Bytes, 0),
		column("at_ns", "allocated at", table.Moment, 0), column("address", "address", table.Address, 2),
	}}
	type entry struct {
		block
		allocation
	}
	var all []entry
	for b, a := range m.live {
		all = append(all, entry{b, a})
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.at, b.at), cmp.Compare(a.process.PID, b.process.PID), cmp.Compare(a.address, b.address))
	})
	for _, e := range all[:min(len(all), maxUnfreed)] {
		t.Rows = append(t.Rows, []any{e.use.use.String(), uint64(e.process.PID), e.use.device(), e.bytes, m.clock.since(e.at), e.address})
	}
	t.LeftOut = len(all) - len(t.Rows)
	return t
}
