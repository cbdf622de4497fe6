package stats

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// Bounds of what is kept of the requests for which PyTorch's allocator found no memory.
const (
	maxTorchFailures = 4 // of a GPU of a process
	maxTorchHolders  = 16
)

// torchMemory is what the program holds of PyTorch's allocators, by Python line.
type torchMemory struct {
	clock   *clock
	pools   *query.Rows[torchPoolKey, torchPool]
	holders *query.Rows[torchHolderKey, torchHolder]
	live    map[block]*torchBlock
	dropped uint64 // blocks beyond maxLive
	blocks  uint64 // that were handed out
	lines   uint64 // of these, with a Python line
	within  uint64 // of these, with an operator
	follows bool   // who held memory over time is kept
	last    uint64 // time of the latest event
}

// A torchPoolKey is a GPU of a process, which has an allocator of its own.
type torchPoolKey struct {
	process *timeline.Process
	gpu     uint32
}

// A torchPool is what an allocator has.
type torchPool struct {
	torchPoolKey
	known          uint64 // bytes of the blocks in live
	held           uint64 // bytes handed out, as the allocator says
	peak, peakAt   uint64 // most bytes handed out
	peakKnown      uint64 // known then
	peaks          uint64 // times that they rose above all before
	reserved       uint64 // most bytes of the GPU
	apart, apartAt uint64 // most bytes of the GPU that were not handed out
	unmatched      uint64 // blocks that came back and were handed out before recording
	failures       []findings.TorchFailure
	failureEarlier uint64 // bytes that were held at the first failure and handed out before recording
	failed         uint64
	over           over
}

// A torchHolderKey is an allocator, and the Python line that asks for memory, and the operator that it asks in.
type torchHolderKey struct {
	pool     *torchPool // nil for all beyond table.MaxRows
	line     string
	operator string // "" if not known
}

// place is the line, with the operator if that is known: "train.py:88 main in aten::mm".
func (k torchHolderKey) place() string {
	if k.operator == "" {
		return k.line
	}
	return k.line + " in " + k.operator
}

// A torchHolder has the blocks that a line asked for.
type torchHolder struct {
	torchHolderKey
	count, bytes  uint64      // all that were handed out
	live, current uint64      // blocks that are held, and their bytes
	first, last   *torchBlock // that are held, in the order of time
	known         uint64      // number of the peak that the next three are of
	peakBytes     uint64
	peakBlocks    uint64
	peakSince     uint64
	failure       uint64 // bytes held at the first failure
	module        string // of PyTorch, in which the line asks; severalModules where there are some
}

// A torchBlock is a block that the program holds.
type torchBlock struct {
	of         *torchHolder
	pool       *torchPool
	bytes, at  uint64
	prev, next *torchBlock // of the holder
}

func newTorchMemory(c *clock) torchMemory {
	return torchMemory{clock: c, live: make(map[block]*torchBlock),
		pools: query.NewRows(table.MaxRows, torchPoolKey{}, func(k torchPoolKey) torchPool {
			return torchPool{torchPoolKey: k}
		}),
		holders: query.NewRows(table.MaxRows, torchHolderKey{}, func(k torchHolderKey) torchHolder {
			return torchHolder{torchHolderKey: k}
		})}
}

// take takes a block, or a request that failed.
func (m *torchMemory) take(b *timeline.TorchBlock) {
	p := m.pools.Of(torchPoolKey{b.Process, b.GPU})
	at := block{b.Process, b.Address}
	if m.last = b.Time; m.follows {
		p.over.until(b.Time, func() []HeldLine { return m.lineBytes(p, func(h *torchHolder) uint64 { return h.current }) })
	}
	switch was := m.live[at]; {
	case b.OutOfMemory:
		m.fail(p, b)
	case b.Bytes >= 0:
		if was != nil { // that it came back is missing
			m.remove(at, was)
		}
		m.add(p, at, b)
	case was != nil:
		m.remove(at, was)
	default:
		p.unmatched++
	}
	if p.held = b.Held; b.Since == 0 {
		p.level(b)
	}
}

// level notes what the allocator has.
func (p *torchPool) level(b *timeline.TorchBlock) {
	if b.Held > p.peak {
		p.peak, p.peakAt, p.peakKnown = b.Held, b.Time, p.known
		p.peaks++
	}
	p.reserved = max(p.reserved, b.Reserved)
	if apart := b.Reserved - min(b.Reserved, b.Held); apart > p.apart {
		p.apart, p.apartAt = apart, b.Time
	}
}

func (m *torchMemory) add(p *torchPool, at block, b *timeline.TorchBlock) {
	h := m.holders.Of(holderOf(p, b))
	h.within(b.Python)
	if b.Since == 0 {
		m.blocks++
		h.count++
		h.bytes = sketch.Sum(h.bytes, uint64(b.Bytes))
		if b.Python != nil {
			m.lines++
		}
		if b.Operator != nil {
			m.within++
		}
	}
	if len(m.live) >= maxLive {
		m.dropped++
		return
	}
	h.catchUp()
	k := &torchBlock{of: h, pool: p, bytes: uint64(b.Bytes), at: cmp.Or(b.Since, b.Time), prev: h.last}
	if h.last == nil {
		h.first = k
	} else {
		h.last.next = k
	}
	h.last = k
	h.live++
	h.current += k.bytes
	p.known += k.bytes
	m.live[at] = k
}

const severalModules = "(several)"

// within notes the module in which a block was asked for, the innermost one.
func (h *torchHolder) within(at *timeline.Python) {
	name := ""
	if list := modulesOf(at); len(list) > 0 {
		name = list[0].name
	}
	switch {
	case name == "" || h.pool == nil:
	case h.module == "":
		h.module = name
	case h.module != name:
		h.module = severalModules
	}
}

func (m *torchMemory) remove(at block, k *torchBlock) {
	h := k.of
	h.catchUp()
	if k.prev == nil {
		h.first = k.next
	} else {
		k.prev.next = k.next
	}
	if k.next == nil {
		h.last = k.prev
	} else {
		k.next.prev = k.prev
	}
	h.live--
	h.current -= k.bytes
	k.pool.known -= k.bytes
	delete(m.live, at)
}

// catchUp notes what was held at the latest peak of the allocator, before the holder changes.
func (h *torchHolder) catchUp() {
	if h.pool == nil || h.known == h.pool.peaks {
		return
	}
	h.known, h.peakBytes, h.peakBlocks, h.peakSince = h.pool.peaks, h.current, h.live, 0
	if h.first != nil {
		h.peakSince = h.first.at
	}
}

// fail takes a request that failed.
func (m *torchMemory) fail(p *torchPool, b *timeline.TorchBlock) {
	if p.failed++; len(p.failures) == maxTorchFailures {
		return
	}
	f := findings.TorchFailure{Process: b.Process, GPU: b.GPU, At: b.Time, Bytes: uint64(max(b.Bytes, 0)),
		Line:      holderOf(p, b).line,
		Allocated: b.Held, Reserved: b.Reserved, Start: m.clock.start}
	if p.failed == 1 {
		p.failureEarlier = b.Held - min(b.Held, p.known)
	}
	for _, h := range m.holders.List {
		if h.pool != p || h.current == 0 {
			continue
		}
		if p.failed == 1 {
			h.failure = h.current
		}
		f.Holders = append(f.Holders, findings.TorchHolder{Line: h.place(), Bytes: h.current, Blocks: h.live,
			Since: h.first.at})
	}
	slices.SortFunc(f.Holders, func(a, b findings.TorchHolder) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Line, b.Line))
	})
	f.Holders = slices.Clone(f.Holders[:min(len(f.Holders), maxTorchHolders)])
	p.failures = append(p.failures, f)
}

// lineBytes are the lines of an allocator, with bytes of theirs.
func (m *torchMemory) lineBytes(p *torchPool, bytes func(*torchHolder) uint64) (held []HeldLine) {
	for _, h := range m.holders.List {
		if h.pool == p {
			held = append(held, HeldLine{h.place(), bytes(h)})
		}
	}
	return held
}

// heldOver is who held memory of the allocator with the highest peak.
func (m *torchMemory) heldOver() *HeldOver {
	var p *torchPool
	for _, x := range m.pools.List {
		if x.process != nil && x.peak > 0 && (p == nil || x.peak > p.peak) {
			p = x
		}
	}
	if p == nil || len(p.over.list) == 0 {
		return nil
	}
	atPeak := m.lineBytes(p, func(h *torchHolder) uint64 {
		h.catchUp()
		return h.peakBytes
	})
	return &HeldOver{fmt.Sprintf("PyTorch's cache of process %d, GPU %d", p.process.PID, p.gpu), p.over.whole(
		momentOf(p.peakAt, atPeak), m.last, m.lineBytes(p, func(h *torchHolder) uint64 { return h.current }))}
}

// torchFailures returns the requests of a process that failed: the first ones, and how many in all.
func (s *Sink) torchFailures(of *timeline.Process) (list []findings.TorchFailure, count uint64) {
	for _, p := range s.torch.pools.List {
		if p.process == of {
			s.nameSteps(p)
			list, count = append(list, p.failures...), count+p.failed
		}
	}
	slices.SortStableFunc(list, func(a, b findings.TorchFailure) int { return cmp.Compare(a.At, b.At) })
	return list, count
}

// nameSteps says of what was held when requests failed in which step it was handed out.
func (s *Sink) nameSteps(p *torchPool) {
	for i := range p.failures {
		for k := range p.failures[i].Holders {
			h := &p.failures[i].Holders[k]
			h.Step = s.stepAt(p.process, h.Since)
		}
	}
}

// stepAt is the step of a process at a time: "step 3"; "" for none.
func (s *Sink) stepAt(of *timeline.Process, at uint64) string {
	for _, k := range s.steps.Main() {
		if k.Process != of {
			continue
		}
		i := sort.Search(len(k.Parts), func(i int) bool { return k.Parts[i].Start > at })
		if i > 0 && at < k.Parts[i-1].End {
			return fmt.Sprintf("step %d", k.Parts[i-1].Number)
		}
	}
	return ""
}

// holderOf is the Python line that asks for memory of an allocator, and the operator.
func holderOf(p *torchPool, b *timeline.TorchBlock) torchHolderKey {
	k := torchHolderKey{pool: p, line: b.Thread.NoPython()}
	if b.Python != nil {
		k.line = b.Python.Own().Text()
	}
	if b.Operator != nil {
		k.operator = b.Operator.Title()
	}
	return k
}

// earlier is the line of what was handed out before recording.
const earlier = "(before recording)"

var torchMemoryReport = Report{
	Name: "torch_memory", Title: "who holds memory of PyTorch's cache, by Python line", Detail: true,
	whyEmpty: "no blocks of PyTorch's cache (record --pytorch memory)",
	unasked:  func(s *Sink) bool { return len(s.torch.pools.List) > 0 },
	table: func(s *Sink, _ Facts) *table.Table {
		for _, p := range s.torch.pools.List {
			s.nameSteps(p)
		}
		return s.torch.held()
	},
}

// torchCells is a row of torch_memory.
type torchCells struct {
	Name string `key:"name" title:"Python line"` // Python line that asked for the memory
	// innermost operator of PyTorch in which it asked: each has a row; `null` without `--pytorch spans,memory`
	Operator string `key:"operator" title:"operator" rank:"3"`
	// module of PyTorch in which it asked, as in `modules`, the innermost one; `(several)` if not always the same
	Module string  `key:"module" title:"module" rank:"4"`
	PID    *uint32 `key:"pid" title:"process" rank:"4" unit:"id"` // process and GPU, each with an allocator
	GPU    *uint32 `key:"gpu" title:"GPU" rank:"4" unit:"id"`     // =
	// bytes held when the program held most, and their part of what it held
	AtPeak *uint64  `key:"peak_bytes" title:"at the peak" rank:"1"`
	Share  *float64 `key:"share" title:"share" rank:"1"`        // =
	Blocks *uint64  `key:"peak_blocks" title:"blocks" rank:"2"` // blocks then, and how long the oldest one had been held
	Oldest *uint64  `key:"oldest_ns" title:"oldest" rank:"2"`   // =
	// bytes held when PyTorch had no memory for the first time; empty if it always had some
	Failure *uint64 `key:"failure_bytes" title:"at the failure" rank:"1"`
	Current uint64  `key:"current_bytes" title:"at the end" rank:"3"` // bytes and blocks held at the end
	Held    uint64  `key:"current_blocks"`                            // =
	Count   uint64  `key:"count" title:"handed out" rank:"3"`         // blocks that were handed out, and their bytes
	Bytes   uint64  `key:"bytes"`                                     // =
}

// held returns the report of who holds what.
func (m *torchMemory) held() *table.Table {
	rows := make([]torchCells, 0, len(m.holders.List))
	failed, inModules := false, false
	for _, h := range m.holders.List {
		h.catchUp()
		inModules = inModules || h.module != ""
		x := torchCells{Name: other, Current: h.current, Held: h.live, Count: h.count, Bytes: h.bytes}
		if p := h.pool; p != nil && p.process != nil {
			x.Name, x.Operator, x.Module, x.PID, x.GPU = h.line, h.operator, h.module, &p.process.PID, &p.gpu
			x.AtPeak, x.Share, x.Blocks = &h.peakBytes, table.ShareOf(h.peakBytes, p.peak), &h.peakBlocks
			if h.peakBlocks > 0 {
				x.Oldest = new(p.peakAt - min(h.peakSince, p.peakAt))
			}
			if p.failed > 0 {
				x.Failure, failed = &h.failure, true
			}
		}
		rows = append(rows, x)
	}
	for _, p := range m.pools.List {
		rest, left := p.peak-min(p.peak, p.peakKnown), p.held-min(p.held, p.known)
		if p.process != nil && rest+left > 0 {
			x := torchCells{Name: earlier, PID: &p.process.PID, GPU: &p.gpu, AtPeak: &rest, Share: table.ShareOf(rest, p.peak),
				Current: left}
			if p.failed > 0 {
				x.Failure = &p.failureEarlier
			}
			rows = append(rows, x)
		}
	}
	t := table.Of(rows)
	t.Sort("peak_bytes")
	t.Notes = m.notes()
	if !failed {
		t.Hide("failure_bytes")
	}
	if m.within == 0 {
		t.Hide("operator")
	}
	if !inModules {
		t.Hide("module")
	}
	return t
}

// notes say what each allocator had, and when it had no memory.
func (m *torchMemory) notes() (notes []string) {
	for _, p := range m.pools.List {
		if p.process == nil {
			continue
		}
		notes = append(notes, fmt.Sprintf("process %d, GPU %d: peak %s held at %s; %s reserved at most; at most %s reserved "+
			"and not held, at %s", p.process.PID, p.gpu, figures.Bytes(p.peak), figures.Duration(m.clock.since(p.peakAt)),
			figures.Bytes(p.reserved), figures.Bytes(p.apart), figures.Duration(m.clock.since(p.apartAt))))
		for i := range p.failures {
			f := &p.failures[i]
			text := fmt.Sprintf("out of memory at %s: %s", figures.Duration(m.clock.since(f.At)), f.Text())
			if room := f.Room(); room != "" {
				text += "; " + room
			}
			notes = append(notes, text)
		}
		if more := p.failed - uint64(len(p.failures)); more > 0 {
			notes = append(notes, "and "+figures.Count(more, "more time", "more times")+" out of memory")
		}
	}
	if m.blocks > 0 && m.lines < m.blocks {
		notes = append(notes, havingFrames(m.lines, m.blocks, "block", "blocks"))
	}
	if m.within < m.blocks {
		notes = append(notes, fmt.Sprintf("%s of %s in a known operator of PyTorch (record --pytorch spans,memory)",
			figures.Group(m.within), figures.Count(m.blocks, "block was asked for", "blocks were asked for")))
	}
	if m.dropped > 0 {
		notes = append(notes, fmt.Sprintf("%s not counted: more than %s were held at one time",
			figures.Count(m.dropped, "block is", "blocks are"), figures.Group(maxLive)))
	}
	return notes
}
