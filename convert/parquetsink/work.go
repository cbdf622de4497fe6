package parquetsink

import (
	"fmt"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// kinds are the words of ndjson.
var kinds = [...]string{timeline.KernelWork: "kernel", timeline.MemcpyWork: "memcpy", timeline.MemsetWork: "memset", timeline.GraphWork: "graph"}

// shapeTexts are what pieces of work of a shape have in common: numbers of texts in the buffer, and the rest.
type shapeTexts struct {
	kind, name, grid, block, source, destination uint32
	registers                                    uint32
	shared, bytes                                int64
	collective                                   *collective // nil for other work
}

// A collective is what the name of a kernel that communicates says.
type collective struct{ name, operation, variant string }

func (s *Sink) workList(l *timeline.WorkList) {
	if len(l.List) == 0 {
		return
	}
	p := s.part(l.Stream.Context.Process)
	b := p.buffer(workTable)
	pid := s.options.HostPID(l.Stream.Context.Process.PID)
	for i := range l.List {
		w := &l.List[i]
		shape := p.shape(b, w)
		p.work(b, l.Stream, w, &shape, pid)
		if shape.collective != nil {
			p.collective(l.Stream, w, shape.collective, pid)
		}
	}
}

func (p *part) work(b *buffer, t *timeline.Stream, w *timeline.Work, shape *shapeTexts, pid uint32) {
	s := p.sink
	b.int(s.unix(w.Start))
	b.int(duration(w))
	b.uint(w.ID)
	b.small(shape.kind)
	b.small(shape.name)
	b.small(pid)
	b.small(t.Context.GPU)
	b.small(t.Context.ID)
	b.small(t.ID)
	b.known(w.Correlation)
	b.known(w.Graph)
	p.call(b, w)
	b.small(shape.grid)
	b.small(shape.block)
	b.small(shape.registers)
	b.int(shape.shared)
	b.int(shape.bytes)
	b.small(shape.source)
	b.small(shape.destination)
	b.flag(w.Unfinished)
	s.end(b)
}

// duration is the duration of a piece of work, null where CUPTI gave no times.
func duration(w *timeline.Work) int64 {
	if w.Untimed {
		return parquet.NullInt
	}
	return int64(min(w.Dur, 1<<62))
}

// call adds the call that caused a piece of work.
func (p *part) call(b *buffer, w *timeline.Work) {
	s := p.sink
	c := &w.Call
	if c.Function == nil {
		b.small(null)
		b.small(null)
		b.int(parquet.NullInt)
		b.int(parquet.NullInt)
	} else {
		b.text(c.Name)
		tid := uint32(null)
		if c.Thread != nil {
			tid = s.options.HostPID(c.Thread.TID)
		}
		b.small(tid)
		b.uint(c.End - min(c.Start, c.End))
		b.uint(w.Start - min(w.Start, c.End))
	}
	b.text(p.caller(c.Caller))
	b.text(p.ranges(c.Ranges))
}

// caller is the text of a caller, "" for none.
func (p *part) caller(c *timeline.Caller) string {
	if c == nil {
		return ""
	}
	text, ok := p.callers[c]
	if !ok {
		text = c.Text()
		p.callers[c] = text
	}
	return text
}

// ranges is a list of NVTX ranges, "" for none.
func (p *part) ranges(stack *timeline.RangeStack) string {
	if stack == nil {
		return ""
	}
	text, ok := p.paths[stack]
	if !ok {
		var names []string
		for _, r := range stack.Path(nil) {
			names = append(names, r.Name)
		}
		text = strings.Join(names, " | ")
		p.paths[stack] = text
	}
	return text
}

// shape is the common part of a piece of work.
func (p *part) shape(b *buffer, w *timeline.Work) shapeTexts {
	if w.Shape == nil || w.Kind == timeline.GraphWork {
		return p.sink.newShape(b, w)
	}
	texts, ok := p.shapes[w.Shape]
	if !ok {
		texts = p.sink.newShape(b, w)
		p.shapes[w.Shape] = texts
	}
	return texts
}

func (s *Sink) newShape(b *buffer, w *timeline.Work) shapeTexts {
	x := shapeTexts{kind: b.id(kinds[w.Kind]), grid: null, block: null, source: null, destination: null, registers: null, shared: parquet.NullInt, bytes: parquet.NullInt}
	name := s.names.Title(w)
	switch w.Kind {
	case timeline.KernelWork:
		k := &w.Shape.Kernel
		x.grid, x.block, x.registers = b.id(dimensions(k.Grid)), b.id(dimensions(k.Block)), k.Registers
		x.shared = int64(k.StaticShared) + int64(k.DynamicShared)
		x.collective = collectiveOf(name)
	case timeline.MemcpyWork:
		c := &w.Shape.Memcpy
		name = cudaapi.MemcpyKindName(c.CopyKind)
		x.source, x.destination = b.id(cudaapi.MemoryKindName(c.SrcKind)), b.id(cudaapi.MemoryKindName(c.DstKind))
		x.bytes = int64(min(c.Bytes, 1<<62))
	case timeline.MemsetWork:
		x.bytes = int64(min(w.Shape.Memset.Bytes, 1<<62))
	}
	x.name = b.id(name)
	return x
}

func dimensions(d [3]uint32) string { return fmt.Sprintf("%dx%dx%d", d[0], d[1], d[2]) }

// collectiveOf reads the name of a kernel: ncclDevKernel_AllReduce_Sum_f32_RING_LL, ncclKernel_SendRecv(...). It returns
// nil for a kernel that is not one of NCCL or NVSHMEM.
func collectiveOf(name string) *collective {
	if !strings.HasPrefix(name, "nccl") && !strings.HasPrefix(name, "nvshmem") {
		return nil
	}
	c := &collective{name: name}
	rest, ok := strings.CutPrefix(name, "ncclDevKernel_")
	if !ok {
		rest, ok = strings.CutPrefix(name, "ncclKernel_")
	}
	if ok {
		rest, _, _ = strings.Cut(rest, "(")
		c.operation, c.variant, _ = strings.Cut(rest, "_")
	}
	return c
}

// communicator is the hash of a communicator, "" where it is not known.
func communicator(n *timeline.NCCL) string {
	if n == nil || n.Communicator == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", n.Communicator)
}

func (p *part) collective(t *timeline.Stream, w *timeline.Work, c *collective, pid uint32) {
	s := p.sink
	p.sequences[t]++
	b := p.buffer(collectiveTable)
	b.int(s.unix(w.Start))
	b.int(duration(w))
	b.uint(w.ID)
	b.text(c.name)
	b.text(c.operation)
	b.text(c.variant)
	b.small(pid)
	b.small(t.Context.GPU)
	b.small(t.ID)
	b.int(p.sequences[t])
	b.text(communicator(w.NCCL))
	if w.NCCL != nil && w.NCCL.HasBytes {
		b.uint(w.NCCL.Bytes)
	} else {
		b.int(parquet.NullInt)
	}
	b.text(p.ranges(w.Call.Ranges))
	s.end(b)
}
