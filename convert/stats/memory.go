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
	holders groups[holderKey, holder]
	lines   uint64 // allocations with a Python line
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
	held                  uint64 // bytes that were live when the time of the filter began
	live                  uint64 // allocations
	current, peak, peakAt uint64
	peaks                 uint64          // times that current rose above all before
	threads               map[uint32]bool // that allocated or freed, by TID
}

// A block is an address in a process.
type block struct {
	process *timeline.Process
	address uint64
}

// A holderKey is a use of memory, and the place that allocates.
type holderKey struct {
	use     *memoryUse // nil for all beyond maxRows
	library string     // "" if it is not known
	line    string     // Python's; "" if it is not known
}

// A holder has the allocations that a place makes.
type holder struct {
	holderKey
	allocations, allocated uint64 // the latter bytes
	live, current          uint64 // allocations, and bytes
	atPeak                 uint64 // bytes at the peak of the use with the number known
	known                  uint64
}

// catchUp notes what was held at the latest peak of the use, before the holder changes.
func (h *holder) catchUp() {
	if h.use != nil && h.known != h.use.peaks {
		h.atPeak, h.known = h.current, h.use.peaks
	}
}

type allocation struct {
	use       *memoryUse
	holder    *holder
	bytes, at uint64
}

func newMemory(c *clock) memory {
	return memory{clock: c, rows: newGroups(memoryKey{}, func(k memoryKey) *memoryUse { return &memoryUse{memoryKey: k, threads: make(map[uint32]bool)} }), live: make(map[block]allocation),
		holders: newGroups(holderKey{}, func(k holderKey) *holder { return &holder{holderKey: k} }), gpus: make(map[uint32]*level)}
}

func (m *memory) countAllocation(e *timeline.Allocation) {
	key := memoryKey{e.Process, cudaapi.MemoryUseOf(e.Kind), e.GPU}
	if key.use == cudaapi.PinnedMemory {
		key.gpu = 0
	}
	r := m.rows.of(key)
	if e.Allocated == 0 {
		r.threads[e.TID] = true
	}
	at := block{e.Process, e.Address}
	known, was := m.live[at]
	if was {
		delete(m.live, at)
		known.use.live--
		known.use.current -= known.bytes
		known.holder.catchUp()
		known.holder.live--
		known.holder.current -= known.bytes
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
	if e.Allocated == 0 {
		r.allocations++
		r.allocated = sketch.Sum(r.allocated, e.Bytes)
	} else {
		r.held = sketch.Sum(r.held, e.Bytes)
	}
	if len(m.live) >= maxLive {
		m.dropped++
		return
	}
	bytes := sketch.Sum(r.current, e.Bytes) - r.current
	h := m.holder(r, &e.Call)
	if e.Allocated == 0 {
		h.allocations++
		h.allocated = sketch.Sum(h.allocated, e.Bytes)
		if e.Call.Python != nil {
			m.lines++
		}
	}
	h.catchUp()
	h.live++
	h.current += bytes
	m.live[at] = allocation{r, h, bytes, cmp.Or(e.Allocated, e.Time)}
	r.live++
	r.current += bytes
	m.change(&r.memoryKey, bytes, e.Time)
	if r.current > r.peak {
		r.peak, r.peakAt = r.current, e.Time
		r.peaks++
	}
}

// holder returns the holder of what a call allocates.
func (m *memory) holder(r *memoryUse, c *timeline.Call) *holder {
	k := holderKey{use: r}
	if c.Caller != nil {
		k.library = c.Caller.File()
	}
	if c.Python != nil {
		k.line = c.Python.Own().Text()
	} else if c.Thread != nil {
		k.line = c.Thread.NoPython()
	}
	return m.holders.of(k)
}

var memoryReport = Report{
	Name: "memory", Title: "allocated memory by use",
	needs: allocations, whyEmpty: "no allocations were recorded",
	table: func(s *Sink, _ Facts) *table.Table { return s.memory.uses() },
	Keys: []Key{
		{"name", "use: `device`, `managed`, `pinned` or `other`"},
		{"pid, gpu", "process and GPU; pinned memory has no GPU"},
		{"peak_bytes, peak_at_ns", "most bytes allocated at one time, and when"},
		{"current_bytes, not_freed", "bytes and allocations not freed when the process or the recording ended"},
		{"allocations, frees", "allocations, and frees of them"},
		{"allocated_bytes", "bytes of all allocations together"},
		{"held_bytes", "bytes live when the time of a filter began, which do not count in `allocations` and `allocated_bytes`"},
		{"unmatched_frees", "frees of memory allocated before recording, or not at all"},
		{"replaced", "allocations at an address that was not freed: the log misses a free"},
		{"threads", "threads that allocated or freed; of several, the order decides the peak"},
	},
}

// uses returns the report of memory by use.
func (m *memory) uses() *table.Table {
	t := &table.Table{Columns: []table.Column{
		name("memory"), id("pid", "process", 3), id("gpu", "GPU", 3), column("peak_bytes", "peak", table.Bytes, 1),
		column("peak_at_ns", "peak at", table.Moment, 2), column("current_bytes", "at the end", table.Bytes, 1),
		count("allocations", "allocations", 2), count("frees", "frees", 2), count("not_freed", "not freed", 2),
		column("allocated_bytes", "", table.Bytes, 0), column("held_bytes", "", table.Bytes, 0), count("unmatched_frees", "", 0), count("replaced", "", 0), count("threads", "", 0),
	}}
	for _, r := range m.rows.list {
		if r.process == nil {
			continue
		}
		t.Rows = append(t.Rows, []any{r.use.String(), uint64(r.process.PID), r.device(), r.peak, m.clock.since(r.peakAt), r.current,
			r.allocations, r.frees, r.live, r.allocated, r.held, r.unmatched, r.replaced, uint64(len(r.threads))})
	}
	t.Sort("peak_bytes")
	held := uint64(0)
	for _, r := range m.rows.list {
		held = sketch.Sum(held, r.held)
	}
	if held > 0 {
		t.Notes = append(t.Notes, table.Words(held, table.Bytes)+" were live when the time of the filter began")
	}
	if m.dropped > 0 {
		t.Notes = append(t.Notes, "more allocations were live than are kept: the sizes of some are missing")
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

var holdersReport = Report{
	Name: "memory_holders", Title: "who holds allocated memory, by library and Python line", Detail: true,
	needs: allocations, whyEmpty: "no allocations were recorded",
	table: func(s *Sink, _ Facts) *table.Table { return s.memory.held(s.python.any()) },
	Keys: []Key{
		{"name, pid, gpu", "as in `memory`"},
		{"library", "library whose code allocates"},
		{"python", "Python line that allocates"},
		{"peak_bytes, share", "bytes held at the peak in `memory`, and their part of it"},
		{"current_bytes, not_freed, allocations, allocated_bytes", "as in `memory`"},
	},
}

// held returns the report of who holds memory. python says that calls have Python frames.
func (m *memory) held(python bool) *table.Table {
	t := &table.Table{Columns: []table.Column{
		name("memory"), id("pid", "process", 4), id("gpu", "GPU", 4), column("library", "library", table.Text, 2), column("python", "Python line", table.Text, 1),
		column("peak_bytes", "at the peak", table.Bytes, 1), column("share", "share", table.Share, 3),
		column("current_bytes", "at the end", table.Bytes, 1), count("not_freed", "not freed", 3), count("allocations", "allocations", 3),
		column("allocated_bytes", "", table.Bytes, 0),
	}}
	all, places := uint64(0), m.holders.list
	for _, h := range places {
		all += h.allocations
		h.catchUp()
	}
	if !python {
		places = withoutLines(places)
	}
	rows := slices.SortedFunc(slices.Values(places), func(a, b *holder) int {
		return cmp.Or(cmp.Compare(b.atPeak, a.atPeak), cmp.Compare(b.current, a.current), cmp.Compare(b.allocated, a.allocated),
			cmp.Compare(a.library, b.library), cmp.Compare(a.line, b.line))
	})
	for _, h := range rows {
		cells := []any{other, nil, nil, nil, nil, nil, nil}
		if h.use != nil && h.use.process != nil {
			cells = []any{h.use.use.String(), uint64(h.use.process.PID), h.use.device(), text(h.library), text(h.line), h.atPeak, table.ShareOf(h.atPeak, h.use.peak)}
		}
		t.Rows = append(t.Rows, append(cells, h.current, h.live, h.allocations, h.allocated))
	}
	if python && all > 0 {
		note := havingFrames(m.lines, all, "allocation", "allocations")
		if float64(m.lines) < enoughFrames*float64(all) {
			note += ": too few to say which line holds most"
		}
		t.Notes = []string{note}
	}
	return t
}

// withoutLines returns holders without their lines: those of one library are one.
func withoutLines(list []*holder) (joined []*holder) {
	byKey := make(map[holderKey]*holder)
	for _, h := range list {
		k := holderKey{use: h.use, library: h.library}
		sum := byKey[k]
		if sum == nil {
			sum = &holder{holderKey: k}
			byKey[k] = sum
			joined = append(joined, sum)
		}
		sum.allocations, sum.allocated = sum.allocations+h.allocations, sketch.Sum(sum.allocated, h.allocated)
		sum.live, sum.current, sum.atPeak = sum.live+h.live, sum.current+h.current, sum.atPeak+h.atPeak
	}
	return joined
}

var unfreedReport = Report{
	Name: "unfreed", Title: "largest allocations that were not freed", Detail: true,
	needs: allocations, whyEmpty: "no allocations that were not freed",
	table: func(s *Sink, _ Facts) *table.Table { return s.memory.unfreed(s.python.any()) },
	Keys: []Key{
		{"name, pid, gpu", "as in `memory`"},
		{"bytes, at_ns, address", "size, moment and address; with `--clip` earlier allocations have no moment"},
		{"library, python", "as in `memory_holders`"},
	},
}

// unfreed returns the report of the largest allocations that were not freed. python says that calls have Python frames.
func (m *memory) unfreed(python bool) *table.Table {
	t := &table.Table{Columns: []table.Column{
		name("memory"), id("pid", "process", 1), id("gpu", "GPU", 1), column("bytes", "bytes", table.Bytes, 0),
		column("at_ns", "allocated at", table.Moment, 0), column("address", "address", table.Address, 3),
		column("library", "library", table.Text, 2), column("python", "Python line", table.Text, 2),
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
		var line any
		if python {
			line = text(e.holder.line)
		}
		var at any // not known of what was allocated before a clipped time, which the moments count from
		if e.at >= m.clock.start {
			at = m.clock.since(e.at)
		}
		t.Rows = append(t.Rows, []any{e.use.use.String(), uint64(e.process.PID), e.use.device(), e.bytes, at, e.address,
			text(e.holder.library), line})
	}
	t.LeftOut = len(all) - len(t.Rows)
	return t
}
