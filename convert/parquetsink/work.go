package parquetsink

import (
	"fmt"
	"math"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// kinds are the words of ndjson.
var kinds = [...]string{timeline.KernelWork: "kernel", timeline.MemcpyWork: "memcpy", timeline.MemsetWork: "memset"}

// shapeTexts are what pieces of work of a shape have in common: numbers of texts in the buffer, and the rest.
type shapeTexts struct {
	kind, name, signature, grid, block, source, destination uint32
	registers                                               uint32
	dimensions                                              [6]uint32 // of the grid and of a block
	occupancy                                               float64
	shared, bytes                                           int64
	collective                                              *collective // nil for other work
}

// A shapeKey is a shape on a GPU.
type shapeKey struct {
	*timeline.Shape
	gpu uint32
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
	for list := l.List; len(list) > 0; {
		n := b.begin(len(list))
		p.workRows(b, l.Stream, list[:n], pid)
		list = list[n:]
	}
}

// workRows adds a piece of work.
func (p *part) workRows(b *buffer, t *timeline.Stream, list []timeline.Work, pid uint32) {
	start, dur, id := b.ints(), b.ints(), b.ints()
	kind, name, signature := b.smalls(), b.smalls(), b.smalls()
	b.small(pid)
	b.small(t.Context.GPU)
	b.small(t.Context.ID)
	b.small(t.ID)
	correlation, graph := b.smalls(), b.smalls()
	shapes := p.shapesOf(b, list, t.Context.GPU)
	for i := range list {
		w := &list[i]
		start[i], dur[i], id[i] = p.sink.unix(w.Start), duration(w), bounded(w.ID)
		kind[i], name[i], signature[i] = shapes[i].kind, shapes[i].name, shapes[i].signature
		correlation[i], graph[i] = known(w.Correlation), known(w.Graph)
		if shapes[i].collective != nil {
			p.collective(t, w, shapes[i].collective, pid)
		}
	}
	p.callsOf(b, list)
	b.shapes(shapes)
	unfinished := b.ints()
	for i := range list {
		unfinished[i] = number(list[i].Unfinished)
	}
	p.sink.end(b)
}

// shapes adds what shapes say beside the name.
func (b *buffer) shapes(all []*shapeTexts) {
	grid, block := b.smalls(), b.smalls()
	var dimensions [6][]uint32
	for k := range dimensions {
		dimensions[k] = b.smalls()
	}
	occupancy, registers := b.floats(), b.smalls()
	shared, bytes := b.ints(), b.ints()
	source, destination := b.smalls(), b.smalls()
	for i, x := range all {
		grid[i], block[i], registers[i], occupancy[i] = x.grid, x.block, x.registers, x.occupancy
		for k := range dimensions {
			dimensions[k][i] = x.dimensions[k]
		}
		shared[i], bytes[i] = x.shared, x.bytes
		source[i], destination[i] = x.source, x.destination
	}
}

// duration is the duration of a piece of work, null where CUPTI gave no times.
func duration(w *timeline.Work) int64 {
	if w.Untimed {
		return parquet.NullInt
	}
	return int64(min(w.Dur, 1<<62))
}

// callsOf adds the calls that caused pieces of work.
func (p *part) callsOf(b *buffer, list []timeline.Work) {
	names, tids := b.smalls(), b.smalls()
	dur, queue := b.ints(), b.ints()
	callers, ranges, stacks := b.smalls(), b.smalls(), b.smalls()
	for i := range list {
		w, c := &list[i], &list[i].Call
		callers[i], ranges[i], stacks[i] = b.caller(p, c.Caller), b.rangesOf(p, c.Ranges), p.stack(c.Thread.Launching(c.Python))
		names[i], tids[i], dur[i], queue[i] = null, null, parquet.NullInt, parquet.NullInt
		if c.Function == nil {
			continue
		}
		names[i] = b.idOrNull(c.Name)
		if c.Thread != nil {
			tids[i] = p.sink.options.HostPID(c.Thread.TID)
		}
		dur[i], queue[i] = bounded(c.End-min(c.Start, c.End)), bounded(w.Start-min(w.Start, c.End))
	}
}

// caller is the number of the text of a caller.
func (b *buffer) caller(p *part, c *timeline.Caller) uint32 {
	if c == nil {
		return null
	}
	return b.idOrNull(p.caller(c))
}

// rangesOf is the number of the text of NVTX ranges.
func (b *buffer) rangesOf(p *part, stack *timeline.RangeStack) uint32 {
	if stack == nil {
		return null
	}
	return b.idOrNull(p.ranges(stack))
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

// shapesOf are the common parts of pieces of work. The list is valid until the next call.
func (p *part) shapesOf(b *buffer, list []timeline.Work, gpu uint32) []*shapeTexts {
	all := p.sink.shapes[:0]
	for i := range list {
		all = append(all, p.shape(b, &list[i], gpu))
	}
	p.sink.shapes = all
	return all
}

// shape is the common part of a piece of work.
func (p *part) shape(b *buffer, w *timeline.Work, gpu uint32) *shapeTexts {
	if w.Shape == nil {
		return p.sink.newShape(b, w, gpu)
	}
	key := shapeKey{w.Shape, gpu}
	texts, ok := p.shapes[key]
	if !ok {
		texts = p.sink.newShape(b, w, gpu)
		p.shapes[key] = texts
	}
	return texts
}

func (s *Sink) newShape(b *buffer, w *timeline.Work, gpu uint32) *shapeTexts {
	x := &shapeTexts{kind: b.id(kinds[w.Kind]), signature: null, grid: null, block: null, source: null, destination: null, registers: null,
		dimensions: [6]uint32{null, null, null, null, null, null}, occupancy: math.NaN(), shared: parquet.NullInt, bytes: parquet.NullInt}
	name := s.names.Title(w)
	switch w.Kind {
	case timeline.KernelWork:
		k := &w.Shape.Kernel
		x.signature = b.idOrNull(s.names.Of(k.Name).Full)
		x.dimensions = [6]uint32{k.Grid[0], k.Grid[1], k.Grid[2], k.Block[0], k.Block[1], k.Block[2]}
		if d := s.devices[gpu]; d != nil {
			if o, ok := d.Of(k); ok {
				x.occupancy = o.Share
			}
		}
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
