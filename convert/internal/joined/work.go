package joined

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// kinds are the words of ndjson.
var kinds = [...]string{timeline.KernelWork: "kernel", timeline.MemcpyWork: "memcpy", timeline.MemsetWork: "memset"}

// A shapeKey is a shape on a GPU.
type shapeKey struct {
	*timeline.Shape
	gpu uint32
}

// A shape is what pieces of work of a shape have in common.
type shape struct {
	work       Work
	collective *Collective // nil for other work
}

func (s *Sink) workList(l *timeline.WorkList) {
	p := s.part(l.Stream.Context.Process)
	s.work = slices.Grow(s.work[:0], len(l.List))[:len(l.List)]
	for i := range l.List {
		w, r := &l.List[i], &s.work[i]
		of := p.shape(w, l.Stream.Context.GPU)
		*r = of.work
		p.workRow(r, l.Stream, w)
		if of.collective != nil {
			p.collective(r, w.NCCL, l.Stream, *of.collective)
		}
	}
	rows(p, s.work)
}

// workRow makes the row of a piece of work of that of its shape.
func (p *part) workRow(r *Work, t *timeline.Stream, w *timeline.Work) {
	s, c := p.sink, &w.Call
	r.Start, r.Dur, r.WorkID = s.unix(w.Start), duration(w), bounded(w.ID)
	r.PID, r.GPU, r.Context, r.Stream = s.options.HostPID(t.Context.Process.PID), t.Context.GPU, t.Context.ID, t.ID
	r.Correlation, r.Graph, r.Unfinished = known(w.Correlation), known(w.Graph), w.Unfinished
	r.Caller, r.NVTX, r.StackID = p.caller(c.Caller), p.ranges(c.Ranges), p.stack(c.Thread.Launching(c.Python))
	r.Operator, r.OperatorStack = p.operator(c.Operator)
	if c.Function != nil {
		r.Call = c.Name
		r.CallTime, r.Queue = bounded(c.End-min(c.Start, c.End)), bounded(w.Start-min(w.Start, c.End))
		if c.Thread != nil {
			r.TID = s.options.HostPID(c.Thread.TID)
		}
	}
}

// duration is the duration of a piece of work, null where CUPTI gave no times.
func duration(w *timeline.Work) int64 {
	if w.Untimed {
		return NoNumber
	}
	return int64(min(w.Dur, 1<<62))
}

// operator is the name of an operator, and the text of it and of those around it; "" for none.
func (p *part) operator(o *timeline.Operator) (name, stack string) {
	if o == nil {
		return "", ""
	}
	stack, ok := p.operators[o]
	if !ok {
		stack = o.Stack()
		p.operators[o] = stack
	}
	return o.Title(), stack
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
		if len(p.paths) >= mostPaths {
			clear(p.paths)
		}
		var names []string
		for _, r := range stack.Path(nil) {
			names = append(names, r.Name)
		}
		text = strings.Join(names, " | ")
		p.paths[stack] = text
	}
	return text
}

// shape is what a piece of work has in common with others.
func (p *part) shape(w *timeline.Work, gpu uint32) *shape {
	if w.Shape == nil {
		return p.sink.newShape(w, gpu)
	}
	key := shapeKey{w.Shape, gpu}
	of, ok := p.sink.shapes[key]
	if !ok {
		if len(p.sink.shapes) >= mostShapes {
			clear(p.sink.shapes)
		}
		of = p.sink.newShape(w, gpu)
		p.sink.shapes[key] = of
	}
	return of
}

// Bounds of caches.
const (
	mostShapes = 1 << 14
	mostPaths  = 1 << 16
)

func (s *Sink) newShape(w *timeline.Work, gpu uint32) *shape {
	x := &shape{work: Work{Kind: kinds[w.Kind], Name: s.names.Title(w), TID: None, CallTime: NoNumber, Queue: NoNumber,
		GridX: None, GridY: None, GridZ: None, BlockX: None, BlockY: None, BlockZ: None,
		Occupancy: math.NaN(), Registers: None, SharedBytes: NoNumber, Bytes: NoNumber}}
	r := &x.work
	switch w.Kind {
	case timeline.KernelWork:
		k := &w.Shape.Kernel
		r.Signature, r.Grid, r.Block = s.names.Of(k.Name).Full, dimensions(k.Grid), dimensions(k.Block)
		r.GridX, r.GridY, r.GridZ = k.Grid[0], k.Grid[1], k.Grid[2]
		r.BlockX, r.BlockY, r.BlockZ = k.Block[0], k.Block[1], k.Block[2]
		if d := s.devices[gpu]; d != nil {
			if o, ok := d.Of(k); ok {
				r.Occupancy = o.Share
			}
		}
		r.Registers, r.SharedBytes = k.Registers, int64(k.StaticShared)+int64(k.DynamicShared)
		x.collective = collectiveOf(r.Name, k.Name)
	case timeline.MemcpyWork:
		c := &w.Shape.Memcpy
		r.Name, r.Bytes = cudaapi.MemcpyKindName(c.CopyKind), int64(min(c.Bytes, 1<<62))
		r.SrcKind, r.DstKind = cudaapi.MemoryKindName(c.SrcKind), cudaapi.MemoryKindName(c.DstKind)
	case timeline.MemsetWork:
		r.Bytes = int64(min(w.Shape.Memset.Bytes, 1<<62))
	}
	return x
}

func dimensions(d [3]uint32) string { return fmt.Sprintf("%dx%dx%d", d[0], d[1], d[2]) }

// collectiveOf is what a kernel does that communicates, nil for others.
func collectiveOf(name, mangled string) *Collective {
	if timeline.CommunicationLibrary(mangled) == "" {
		return nil
	}
	c := &Collective{Name: name}
	c.Operation, c.Variant = timeline.NCCLKernel(mangled)
	return c
}

// communicator is the hash of a communicator, "" where it is not known.
func communicator(n *timeline.NCCL) string {
	if n == nil || n.Communicator == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", n.Communicator)
}

// collective adds the row of a collective, of which the name is known.
func (p *part) collective(w *Work, n *timeline.NCCL, t *timeline.Stream, r Collective) {
	p.sequences[t]++
	r.Start, r.Dur, r.WorkID, r.PID, r.GPU, r.Stream, r.NVTX = w.Start, w.Dur, w.WorkID, w.PID, w.GPU, w.Stream, w.NVTX
	r.Sequence, r.Communicator, r.Bytes = p.sequences[t], communicator(n), NoNumber
	if n != nil && n.HasBytes {
		r.Bytes = bounded(n.Bytes)
	}
	row(p, r)
}
