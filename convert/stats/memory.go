package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
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
	rows    *query.Rows[memoryKey, memoryUse]
	holders *query.Rows[holderKey, holder]
	lines   uint64 // allocations with a Python line
	framed  bool   // some have one, or were live when the time of the filter began
	live    map[block]allocation
	dropped uint64 // allocations beyond maxLive
	gpus    map[uint32]*level
	failed  []*outOfMemory
	unread  bool   // some of failed have yet to learn who held memory, which has not changed since
	follows bool   // who held device memory over time is kept
	last    uint64 // time of the latest event
}

// A level is the device memory of a GPU in use, over all processes.
type level struct{ current, physical, peak, peakAt uint64 }

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
	over                  over
}

// A block is an address in a process.
type block struct {
	process *timeline.Process
	address uint64
}

// A holderKey is a use of memory, and the place that allocates.
type holderKey struct {
	use     *memoryUse // nil for all beyond table.MaxRows
	library string     // "" if it is not known
	line    string     // Python's; "" if it is not known
}

// A holder has the allocations that a place makes.
type holder struct {
	holderKey
	allocations, allocated uint64 // the latter bytes
	live, current          uint64 // allocations, and bytes
	since                  uint64 // when it began to hold what it never let go of whole
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
	physical  bool // by a handle, to be mapped to addresses
}

func newMemory(c *clock) memory {
	return memory{
		clock: c, live: make(map[block]allocation), gpus: make(map[uint32]*level),
		rows: query.NewRows(table.MaxRows, memoryKey{}, func(k memoryKey) memoryUse {
			return memoryUse{memoryKey: k, threads: make(map[uint32]bool)}
		}),
		holders: query.NewRows(table.MaxRows, holderKey{}, func(k holderKey) holder { return holder{holderKey: k} }),
	}
}

func (m *memory) countAllocation(e *timeline.Allocation) {
	m.readHeld()
	key := memoryKey{e.Process, cudaapi.MemoryUseOf(e.Kind), e.GPU}
	if key.use == cudaapi.PinnedMemory {
		key.gpu = 0
	}
	r := m.rows.Of(key)
	if e.Allocated == 0 && e.TID != 0 {
		r.threads[e.TID] = true
	}
	if m.last = e.Time; m.follows && key.use == cudaapi.DeviceMemory {
		r.over.until(e.Time, func() []HeldLine { return m.lineBytes(r, func(h *holder) uint64 { return h.current }) })
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
			if known.physical {
				l.physical -= min(l.physical, known.bytes)
			}
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

// lineBytes are the places that hold memory of a use, with bytes of theirs.
func (m *memory) lineBytes(r *memoryUse, bytes func(*holder) uint64) (held []HeldLine) {
	for _, h := range m.holders.List {
		if h.use != r {
			continue
		}
		place := h.line
		if place == "" || strings.HasPrefix(place, "(") { // it has no Python line
			place = cmp.Or(h.library, place, UnknownPlace)
		}
		held = append(held, HeldLine{place, bytes(h)})
	}
	return held
}

// heldOver is who held device memory of the process and the GPU with the highest peak.
func (m *memory) heldOver() *HeldOver {
	var r *memoryUse
	for _, x := range m.rows.List {
		if x.process != nil && x.use == cudaapi.DeviceMemory && x.peak > 0 && (r == nil || x.peak > r.peak) {
			r = x
		}
	}
	if r == nil || len(r.over.list) == 0 {
		return nil
	}
	atPeak := m.lineBytes(r, func(h *holder) uint64 {
		h.catchUp()
		return h.atPeak
	})
	return &HeldOver{fmt.Sprintf("device memory of process %d, GPU %d", r.process.PID, r.gpu), r.over.whole(
		momentOf(r.peakAt, atPeak), m.last, m.lineBytes(r, func(h *holder) uint64 { return h.current }))}
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
	if h.live == 0 {
		h.since = cmp.Or(e.Allocated, e.Time)
	}
	h.live++
	h.current += bytes
	m.live[at] = allocation{r, h, bytes, cmp.Or(e.Allocated, e.Time), e.Kind == cudaapi.PhysicalKind}
	r.live++
	r.current += bytes
	m.change(&r.memoryKey, bytes, e.Time)
	if l := m.gpus[r.gpu]; e.Kind == cudaapi.PhysicalKind && l != nil {
		l.physical = sketch.Sum(l.physical, bytes)
	}
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
		k.line, m.framed = c.Python.Own().Text(), true
	} else if c.Thread != nil {
		k.line = c.Thread.NoPython()
	}
	return m.holders.Of(k)
}

var memoryReport = Report{
	Name: "memory", Title: "allocated memory by use",
	needs: allocations, whyEmpty: "no allocations were recorded",
	table: func(s *Sink, f Facts) *table.Table { return f.lacking(s.memory.uses()) },
}

// lacking notes what the allocations of a report lack.
func (f *Facts) lacking(t *table.Table) *table.Table {
	if f.MemoryUnknown != "" && len(t.Rows) > 0 {
		t.Notes = append(t.Notes, f.MemoryUnknown)
	}
	return t
}

// MemoryCells is a row of memory.
type MemoryCells struct {
	// use: `device`, `managed`, `pinned` or `other`
	Name   string  `key:"name" title:"memory"`
	PID    uint32  `key:"pid" title:"process" rank:"3" unit:"id"`            // process and GPU; pinned memory has no GPU
	GPU    *uint32 `key:"gpu" title:"GPU" rank:"3" unit:"id"`                // =
	Peak   uint64  `key:"peak_bytes" title:"peak" rank:"1"`                  // most bytes allocated at one time, and when
	PeakAt uint64  `key:"peak_at_ns" title:"peak at" rank:"2" unit:"moment"` // =
	// bytes and allocations not freed when the process or the recording ended
	Current     uint64 `key:"current_bytes" title:"at the end" rank:"1"`
	Allocations uint64 `key:"allocations" title:"allocations" rank:"2"` // allocations, and frees of them
	Frees       uint64 `key:"frees" title:"frees" rank:"2"`             // =
	NotFreed    uint64 `key:"not_freed" title:"not freed" rank:"2"`     // as `current_bytes`
	Allocated   uint64 `key:"allocated_bytes"`                          // bytes of all allocations together
	// bytes live when the time of a filter began, which do not count in `allocations` and `allocated_bytes`
	Held      uint64 `key:"held_bytes"`
	Unmatched uint64 `key:"unmatched_frees"` // frees of memory allocated before recording, or not at all
	Replaced  uint64 `key:"replaced"`        // allocations at an address that was not freed: the log misses a free
	Threads   int    `key:"threads"`         // known threads that allocated or freed; of several, the order decides the peak
}

// uses returns the report of memory by use.
func (m *memory) uses() *table.Table {
	var rows []MemoryCells
	held := uint64(0)
	for _, r := range m.rows.List {
		held = sketch.Sum(held, r.held)
		if r.process == nil {
			continue
		}
		rows = append(rows, MemoryCells{
			Name: r.use.String(), PID: r.process.PID, GPU: r.device(),
			Peak: r.peak, PeakAt: m.clock.since(r.peakAt), Current: r.current, Allocated: r.allocated, Held: r.held,
			Allocations: r.allocations, Frees: r.frees, NotFreed: r.live, Unmatched: r.unmatched,
			Replaced: r.replaced, Threads: len(r.threads),
		})
	}
	t := table.Of(rows)
	t.Sort("peak_bytes")
	if held > 0 {
		t.Notes = append(t.Notes, table.Words(held, table.Bytes)+" were live when the time of the filter began")
	}
	if m.dropped > 0 {
		t.Notes = append(t.Notes, "more allocations were live than are kept: the sizes of some are missing")
	}
	return t
}

// device is the GPU of a use of memory, null of pinned memory.
func (k *memoryKey) device() *uint32 {
	if k.use == cudaapi.PinnedMemory {
		return nil
	}
	return &k.gpu
}

var holdersReport = Report{
	Name: "memory_holders", Title: "who holds allocated memory, by library and Python line", Detail: true,
	needs: allocations, whyEmpty: "no allocations were recorded",
	table: func(s *Sink, f Facts) *table.Table { return f.lacking(s.memory.held(s.showsLines(), f.Python == "")) },
}

// HolderCells is a row of memory_holders.
type HolderCells struct {
	Name    string  `key:"name" title:"memory"`                    // as in `memory`
	PID     *uint32 `key:"pid" title:"process" rank:"4" unit:"id"` // as in `memory`
	GPU     *uint32 `key:"gpu" title:"GPU" rank:"4" unit:"id"`     // as in `memory`
	Library string  `key:"library" title:"library" rank:"2"`       // library whose code allocates
	Python  string  `key:"python" title:"Python line" rank:"1"`    // Python line that allocates
	// bytes held at the peak in `memory`, and their part of it
	AtPeak      *uint64  `key:"peak_bytes" title:"at the peak" rank:"1"`
	Share       *float64 `key:"share" title:"share" rank:"3"`              // =
	Current     uint64   `key:"current_bytes" title:"at the end" rank:"1"` // as in `memory`
	NotFreed    uint64   `key:"not_freed" title:"not freed" rank:"3"`      // as in `memory`
	Allocations uint64   `key:"allocations" title:"allocations" rank:"3"`  // as in `memory`
	Allocated   uint64   `key:"allocated_bytes"`                           // as in `memory`
}

// showsLines reports whether holders of memory are told apart by Python lines: a call or an allocation has frames.
func (s *Sink) showsLines() bool { return s.memory.framed || s.anyPython() }

// held returns the report of who holds memory. python says that there are lines, framed that the log has Python frames.
func (m *memory) held(python, framed bool) *table.Table {
	all, places := uint64(0), m.holders.List
	for _, h := range places {
		all += h.allocations
		h.catchUp()
	}
	if !python {
		places = withoutLines(places)
	}
	sorted := slices.SortedFunc(slices.Values(places), func(a, b *holder) int {
		return cmp.Or(cmp.Compare(b.atPeak, a.atPeak), cmp.Compare(b.current, a.current),
			cmp.Compare(b.allocated, a.allocated), cmp.Compare(a.library, b.library), cmp.Compare(a.line, b.line))
	})
	rows := make([]HolderCells, 0, len(sorted))
	for _, h := range sorted {
		x := HolderCells{
			Name: other, Current: h.current, NotFreed: h.live, Allocations: h.allocations, Allocated: h.allocated,
		}
		if h.use != nil && h.use.process != nil {
			x.Name, x.PID, x.GPU, x.Library, x.Python = h.use.use.String(), &h.use.process.PID, h.use.device(), h.library, h.line
			x.AtPeak, x.Share = &h.atPeak, table.ShareOf(h.atPeak, h.use.peak)
		}
		rows = append(rows, x)
	}
	t := table.Of(rows)
	tellApart(t)
	if !python && framed && len(rows) > 0 {
		t.Notes = []string{"no allocation has a Python line: docs/calls.md says when there are none"}
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

// tellApart keeps the libraries of holders where there is little room, if rows differ by them alone.
func tellApart(t *table.Table) {
	seen := make(map[string]bool)
	for _, r := range t.Rows {
		text := ""
		for i, c := range t.Columns {
			if c.Key == "name" || c.Key == "pid" || c.Key == "gpu" || c.Key == "python" {
				text += t.Words(r, i) + "\n"
			}
		}
		if seen[text] {
			t.SetRank(0, "library")
			return
		}
		seen[text] = true
	}
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
	table: func(s *Sink, f Facts) *table.Table { return f.lacking(s.memory.unfreed(s.showsLines())) },
}

// unfreedCells is a row of unfreed.
type unfreedCells struct {
	Name string  `key:"name" title:"memory"`                    // as in `memory`
	PID  uint32  `key:"pid" title:"process" rank:"1" unit:"id"` // as in `memory`
	GPU  *uint32 `key:"gpu" title:"GPU" rank:"1" unit:"id"`     // as in `memory`
	// size, moment and address
	Bytes   uint64 `key:"bytes" title:"bytes"`
	At      uint64 `key:"at_ns" title:"allocated at" unit:"moment"`        // =
	Address uint64 `key:"address" title:"address" rank:"3" unit:"address"` // =
	Library string `key:"library" title:"library" rank:"2"`                // as in `memory_holders`
	Python  string `key:"python" title:"Python line" rank:"2"`             // as in `memory_holders`
}

// unfreed returns the report of the largest allocations that were not freed. python says that calls have Python frames.
func (m *memory) unfreed(python bool) *table.Table {
	type entry struct {
		block
		allocation
	}
	var all []entry
	for b, a := range m.live {
		all = append(all, entry{b, a})
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.at, b.at),
			cmp.Compare(a.process.PID, b.process.PID), cmp.Compare(a.address, b.address))
	})
	var rows []unfreedCells
	for _, e := range all[:min(len(all), maxUnfreed)] {
		x := unfreedCells{
			Name: e.use.use.String(), PID: e.process.PID, GPU: e.use.device(),
			Bytes: e.bytes, At: m.clock.since(e.at), Address: e.address, Library: e.holder.library,
		}
		if python {
			x.Python = e.holder.line
		}
		rows = append(rows, x)
	}
	t := table.Of(rows)
	t.LeftOut = len(all) - len(rows)
	return t
}
