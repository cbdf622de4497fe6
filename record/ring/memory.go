package ring

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/livemem"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// memory is the memory of all processes that is alive after the calls of some segments. A snapshot has a record for
// each block that is alive when the window begins, and, so that a reader need not know what calls of the window refer
// to, one for each later change.
type memory struct {
	calls     bool // calls tell what is allocated: the recording says so
	readers   map[uint32]*cudaapi.MemoryReader
	processes map[uint32]*livemem.ProcessMemory
	started   map[uint32]uint64    // when the program of a process did
	contexts  map[[2]uint32]uint32 // devices, by process and CUPTI's number of the context
	room      livemem.Room
	pending   []memoryEvent // of the latest segment: an earlier one may follow in the next segment
	window    *memoryWindow // of a snapshot, else nil
}

// A memoryWindow is the part of a recording for which there are records.
type memoryWindow struct {
	w           *tracelog.Writer
	from, until uint64
	begun       bool // what was alive at the beginning is written
}

// maxPending bounds the events that wait for earlier ones.
const maxPending = 1 << 18

// A memoryEvent is a call that changes what is alive, or the end of a program.
type memoryEvent struct {
	at, start uint64
	pid, tid  uint32
	ends      bool
	call      cudaapi.MemoryCall
}

func newMemory() *memory {
	return &memory{readers: map[uint32]*cudaapi.MemoryReader{}, processes: map[uint32]*livemem.ProcessMemory{},
		started: map[uint32]uint64{}, contexts: map[[2]uint32]uint32{},
		room: livemem.Room{Most: maxOpen}}
}

func (m *memory) clone() *memory {
	c := newMemory()
	c.calls, c.readers, c.started, c.pending = m.calls, maps.Clone(m.readers), maps.Clone(m.started),
		slices.Clone(m.pending)
	c.contexts = maps.Clone(m.contexts)
	for pid, p := range m.processes {
		c.processes[pid] = p.Clone(&c.room, c.changed(pid))
	}
	c.room.Dropped = m.room.Dropped
	return c
}

// fold takes the calls of the next segment.
func (m *memory) fold(of *segment) error {
	// Blocks come in any order, and calls refer to functions.
	err := of.each(tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindMeta, tracelog.KindFunction, tracelog.KindProcess,
		tracelog.KindProcessEnd, tracelog.KindContext}}, func(b *tracelog.Block) {
		x := tracelog.NewRecord(b.Kind)
		for i := range b.N {
			x.Read(b, i)
			m.define(x)
		}
	})
	if err != nil || !m.calls {
		return err
	}
	if err := of.each(tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindCall}}, m.block); err != nil {
		return err
	}
	m.apply(of.from)
	return nil
}

func (m *memory) define(x tracelog.Record) {
	switch x := x.(type) {
	case *tracelog.Meta:
		m.calls = m.calls || x.Key == tracelog.MetaMemory &&
			(x.Value == tracelog.MemoryOfCalls || x.Value == tracelog.MemoryOfCallbacks)
	case *tracelog.Function:
		if r := cudaapi.ReadMemory(x.Name, x.Args); r != nil && len(m.readers) < maxDefinitions {
			m.readers[x.ID] = r
		}
	case *tracelog.Context:
		if len(m.contexts) < maxDefinitions {
			m.contexts[[2]uint32{x.PID, x.ID}] = x.Device
		}
	case *tracelog.Process:
		if before, known := m.started[x.PID]; known && x.Start > before {
			m.pending = append(m.pending, memoryEvent{at: x.Start, pid: x.PID, ends: true})
		}
		m.started[x.PID] = x.Start
	case *tracelog.ProcessEnd:
		m.pending = append(m.pending, memoryEvent{at: x.Time, pid: x.PID, ends: true})
		delete(m.started, x.PID)
	}
}

func (m *memory) block(b *tracelog.Block) {
	functions, returned := b.Column("func"), tracelog.Call{}
	for i := range b.N {
		r := m.readers[uint32(functions.At(i))]
		if r == nil {
			continue
		}
		x := &returned
		if x.Read(b, i); x.Flags != 0 {
			continue
		}
		if c, ok := r.Read(x.Args[:x.NArgs], x.Ret); ok {
			if device, known := m.contexts[[2]uint32{x.PID, c.Context}]; known {
				livemem.Locate(&c, device)
			}
			m.pending = append(m.pending, memoryEvent{livemem.At(&c, x.Enter, x.Enter+x.Dur), x.Enter, x.PID, x.TID, false, c})
		}
	}
	if len(m.pending) > maxPending {
		m.sort()
		m.apply(m.pending[len(m.pending)/2].at)
	}
}

func (m *memory) sort() {
	slices.SortStableFunc(m.pending, func(a, b memoryEvent) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.start, b.start))
	})
}

// apply makes the changes before a time.
func (m *memory) apply(before uint64) {
	if x := m.window; x != nil && !x.begun && before > x.from {
		m.apply(x.from)
		m.begin()
	}
	m.sort()
	n := 0
	for ; n < len(m.pending) && m.pending[n].at < before; n++ {
		e := &m.pending[n]
		p := m.processes[e.pid]
		switch {
		case e.ends && p != nil:
			p.End()
			delete(m.processes, e.pid)
		case !e.ends:
			if p == nil {
				p = livemem.New(&m.room, m.changed(e.pid))
				m.processes[e.pid] = p
			}
			p.Call(e.tid, &e.call, e.at)
		}
	}
	m.pending = slices.Delete(m.pending, 0, n)
}

// begin writes what is alive when the window begins.
func (m *memory) begin() {
	x := m.window
	x.begun = true
	for _, pid := range slices.Sorted(maps.Keys(m.processes)) {
		for _, b := range m.processes[pid].Alive() {
			x.addBlock(pid, &b, cudaapi.MemoryAllocated, x.from)
		}
	}
}

// changed returns a function that writes the changes of a process in the window.
func (m *memory) changed(pid uint32) func(*livemem.Change) {
	return func(c *livemem.Change) {
		if x := m.window; x == nil || !x.begun || c.Time > x.until {
			return
		}
		operation := uint32(cudaapi.MemoryAllocated)
		if c.Released {
			operation = cudaapi.MemoryReleased
		}
		m.window.addBlock(pid, &c.Block, operation, c.Time)
	}
}

func (x *memoryWindow) addBlock(pid uint32, b *livemem.Block, operation uint32, at uint64) {
	r := tracelog.Memory{
		PID: pid, Operation: operation, MemoryKind: b.Kind, Device: b.Device, Time: at, Address: b.Address, Bytes: b.Bytes,
		Pool: b.Pool,
	}
	if b.Ordered {
		r.Async = 1
	}
	x.w.Add(&r)
}

// write writes the records of a window in some segments. They are the next ones.
func (m *memory) write(x *memoryWindow, segments []*segment) error {
	m.window = x
	for _, of := range segments {
		if err := m.fold(of); err != nil {
			return err
		}
	}
	if m.calls {
		m.apply(math.MaxUint64)
	}
	return nil
}
