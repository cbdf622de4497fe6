package join

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// torchMemory hands on what PyTorch's allocators did, in the order of time, and counters of what they had.
type torchMemory struct {
	catalog  *read.Catalog
	program  func(pid uint32, at uint64) *program
	operator func(t *timeline.Thread, at, low uint64) *timeline.Operator
	out      *spanOutput
	waiting  inOrder[tracelog.TorchMemory]
	counters map[torchDevice]*torchCounters
	failures map[*timeline.Process]*overlapLanes
	held     map[torchAddress]*timeline.TorchBlock // when the time of a filter begins; nil from then on
	before   map[torchDevice]*timeline.TorchBlock  // the last one before that time
	beyond   uint64                                // blocks that held has no room for
}

// A torchDevice is a GPU of a process.
type torchDevice struct {
	process *timeline.Process
	gpu     uint32
}

type torchCounters struct {
	allocated, reserved timeline.Counter
	last                uint64 // value of reserved, which seldom changes
}

type torchAddress struct {
	process *timeline.Process
	address uint64
}

func newTorchMemory(c *read.Catalog, program func(uint32, uint64) *program, operators *operators,
	out *spanOutput) torchMemory {
	return torchMemory{catalog: c, program: program, operator: operators.at, out: out,
		counters: make(map[torchDevice]*torchCounters),
		failures: make(map[*timeline.Process]*overlapLanes),
		held:     make(map[torchAddress]*timeline.TorchBlock), before: make(map[torchDevice]*timeline.TorchBlock),
		waiting: newInOrder(&out.budget.Records, &out.found.Late,
			func(r *tracelog.TorchMemory) uint64 { return r.Time }, nil)}
}

// readBlock queues the block of a row.
func (m *torchMemory) readBlock(b *tracelog.Block, i int) {
	var r tracelog.TorchMemory
	if r.Read(b, i); m.out.to == 0 || r.Time <= m.out.to {
		m.waiting.add(r)
	}
}

// advance hands on what is known to be in order; with all, everything.
func (m *torchMemory) advance(low uint64, all bool) {
	if all {
		low = timeline.Never
	}
	m.waiting.drain(low, all, func(r *tracelog.TorchMemory) {
		b := m.block(r, low)
		if b.Time < m.out.from {
			m.hold(b)
			return
		}
		m.begin()
		m.emit(b)
	})
	if all {
		m.begin()
	}
	for _, lanes := range m.failures {
		lanes.advance(low, all)
	}
}

// block returns the block of a record that was taken. All operators that began before low are known.
func (m *torchMemory) block(r *tracelog.TorchMemory, low uint64) *timeline.TorchBlock {
	p, at := m.program(r.PID, m.waiting.taken), m.waiting.taken
	b := &timeline.TorchBlock{Process: p.out, Thread: p.thread(r.TID), Time: at, Address: r.Address, Bytes: r.Bytes,
		Held: r.Allocated, Reserved: r.Reserved, GPU: m.catalog.GPUs.IndexOrOwn(r.PID, r.Device),
		Python:      m.catalog.Pythons.ByID(r.Python),
		OutOfMemory: r.Flags&tracelog.TorchOutOfMemory != 0}
	if r.Time == at { // else it is late
		b.Operator = m.operator(b.Thread, at, low)
	}
	return b
}

// hold takes a block from before the time of a filter.
func (m *torchMemory) hold(b *timeline.TorchBlock) {
	key := torchAddress{b.Process, b.Address}
	m.before[torchDevice{b.Process, b.GPU}] = b
	switch {
	case b.OutOfMemory:
	case b.Bytes < 0:
		delete(m.held, key)
	case len(m.held) < MaxAllocations:
		m.held[key] = b
	default:
		m.beyond++
	}
}

// begin hands on what is held when the time of a filter begins.
func (m *torchMemory) begin() {
	held := make([]*timeline.TorchBlock, 0, len(m.held))
	for _, b := range m.held {
		held = append(held, b)
	}
	slices.SortFunc(held, func(a, b *timeline.TorchBlock) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Process.PID, b.Process.PID),
			cmp.Compare(a.Address, b.Address))
	})
	for _, b := range held {
		begun, last := *b, m.before[torchDevice{b.Process, b.GPU}]
		begun.Since, begun.Time, begun.Held, begun.Reserved = b.Time, m.out.from, last.Held, last.Reserved
		m.out.emitter.Emit(&begun)
	}
	m.held, m.before = nil, nil
}

// emit hands a block on, and what the allocator has then.
func (m *torchMemory) emit(b *timeline.TorchBlock) {
	m.out.emitter.Emit(b)
	if b.OutOfMemory {
		m.fail(b)
	}
	key := torchDevice{b.Process, b.GPU}
	c := m.counters[key]
	if c == nil {
		counter := func(what string) timeline.Counter {
			return timeline.Counter{Process: b.Process, GPU: b.GPU, Name: fmt.Sprintf("PyTorch %s (GPU %d)", what, b.GPU)}
		}
		c = &torchCounters{allocated: counter("allocated"), reserved: counter("reserved"), last: timeline.Never}
		m.counters[key] = c
	}
	m.out.emitter.Emit(&timeline.CounterValue{Counter: &c.allocated, Time: b.Time, Value: b.Held})
	if b.Reserved != c.last {
		c.last = b.Reserved
		m.out.emitter.Emit(&timeline.CounterValue{Counter: &c.reserved, Time: b.Time, Value: b.Reserved})
	}
}

// fail shows a request for which there was no memory.
func (m *torchMemory) fail(b *timeline.TorchBlock) {
	lanes := m.failures[b.Process]
	if lanes == nil {
		track := timeline.Track{Process: b.Process, Category: timeline.Memory}
		lanes = newOverlapLanes(m.out, &m.out.budget.Records, track)
		m.failures[b.Process] = lanes
	}
	args := []timeline.Detail{{Name: "bytes", Value: uint64(max(b.Bytes, 0))}, {Name: "allocated", Value: b.Held},
		{Name: "reserved", Value: b.Reserved}, {Name: "gpu", Value: uint64(b.GPU)},
		{Name: "thread", Value: uint64(b.Thread.TID)}}
	if b.Python != nil {
		args = append(args, timeline.Detail{Name: "python", Text: b.Python.Stack()})
	}
	if b.Operator != nil {
		args = append(args, timeline.Detail{Name: "operator", Text: b.Operator.Stack()})
	}
	lanes.addInstant(timeline.Span{Name: "PyTorch out of memory", Start: b.Time, End: b.Time, Args: args})
}
