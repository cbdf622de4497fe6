package perfetto

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Shape is what many pieces of GPU work have in common, encoded once: all of a
// GPUEvent but its ID, its times and what it waited for. One Shape serves for all queues
// of its Writer.
type Shape struct {
	body   []byte // fields of GpuRenderStageEvent
	launch []byte // fields of its ComputeKernelLaunch
	refs   []ref  // what they refer to
	id     uint32 // of what it was made from last
	kernel KernelID
	stage  Stage
	device bool // the arguments have one of that name
	stream bool
}

// Shape makes g anew, in the memory that it has, from e.
func (w *Writer) Shape(g *Shape, e *GPUEvent) {
	if e.Stage < 0 || e.Stage >= stages || int(e.Kernel) > len(w.kernels) {
		w.fail(fmt.Errorf("perfetto: GPU work of stage %d with kernel %d: one of them is out of range", e.Stage, e.Kernel))
		e = &GPUEvent{}
	}
	g.refs, g.id, g.kernel, g.stage, g.device, g.stream = g.refs[:0], w.made(), e.Kernel, e.Stage, false, false
	b := buffer{g.body[:0]}
	b.uint(stageStage, firstStageID+uint64(e.Stage))
	if id := w.intern(&g.refs, tableNames, e.Name); id != 0 {
		b.uint(stageNameID, id)
	} else {
		b.optional(stageName, e.Name)
	}
	if e.Kernel != 0 {
		b.uint(stageKernel, uint64(e.Kernel))
	}
	g.body = b.b
	b.b = g.launch[:0]
	b.dimensions(launchGrid, e.Grid)
	b.dimensions(launchWorkgroup, e.Block)
	for i := range e.Args {
		a := &e.Args[i]
		g.device = g.device || a.name == "device"
		g.stream = g.stream || a.name == "stream"
		w.computeArg(&b, &g.refs, launchArg, a)
	}
	g.launch = b.b
}

// computeArg appends a as an ExtraComputeArg, which has no type for pointers.
func (w *Writer) computeArg(b *buffer, refs *[]ref, f field, a *Arg) {
	start := b.open(f)
	if id := w.intern(refs, tableComputeNames, a.name); id != 0 {
		b.uint(computeNameID, id)
	} else {
		b.text(computeName, a.name)
	}
	switch a.kind {
	case argUint:
		b.uint(computeUint, a.bits)
	case argInt:
		b.uint(computeInt, a.bits)
	case argPointer:
		b.text(computeString, "0x"+strconv.FormatUint(a.bits, 16))
	case argFloat:
		b.fixed(computeDouble, a.bits)
	case argString:
		if id := w.intern(refs, tableStrings, a.text); id != 0 {
			b.uint(computeStringID, id)
		} else {
			b.text(computeString, a.text)
		}
	}
	b.close(start)
}

// Event writes a piece of work. Its launch gets the arguments "device" and
// "stream" of the queue, unless e.Args has them, by which the UI groups it.
func (q *GPUQueue) Event(e *GPUEvent) {
	w := q.seq.w
	w.Shape(&w.shape, e)
	q.event(&w.shape, e.ID, e.Start, e.Dur, e.Waits, nil)
}

// EventAs writes a piece of work as Event does; own are its arguments beside those of g.
func (q *GPUQueue) EventAs(g *Shape, id, start, dur uint64, own ...Arg) {
	w := q.seq.w
	w.refs, w.varied.b = w.refs[:0], w.varied.b[:0]
	for i := range own {
		w.computeArg(&w.varied, &w.refs, launchArg, &own[i])
	}
	q.seq.refer(w.refs)
	q.event(g, id, start, dur, nil, w.varied.b)
}

// EventWith writes a piece of work as Event does, with one argument beside those of g: v
// is its value.
func (q *GPUQueue) EventWith(g *Shape, id, start, dur uint64, name *ArgName, v uint64) {
	w := q.seq.w
	q.seq.refer(name.forms[:])
	b := append(w.varied.b[:0], name.work...)
	b = appendVarint(b, v)
	b[1] = byte(len(b) - 2)
	w.varied.b = b
	q.event(g, id, start, dur, nil, b)
}

// event writes a GpuRenderStageEvent. What differs from event to event stands at the end,
// which compresses best. All lengths are known before the first byte is written.
func (q *GPUQueue) event(g *Shape, id, start, dur uint64, waits []uint64, own []byte) {
	s := q.seq
	w := s.w
	if id == 0 {
		w.fail(fmt.Errorf("perfetto: GPU work without an id"))
		return
	}
	s.template(g.id, g.refs)
	if !q.stages[g.stage] {
		q.stage(g.stage)
	}
	if g.kernel != 0 {
		q.intern(g.kernel)
	}
	var device, stream []byte
	if !g.device {
		device = q.device
	}
	if !g.stream {
		stream = q.stream
	}
	launch := len(g.launch) + len(device) + len(stream) + len(own)
	size := len(q.place) + len(g.body) + len(launchTag) + sizeVarint(uint64(launch)) + launch + 2 + sizeVarint(id) + sizeVarint(dur)
	for _, id := range waits {
		size += len(waitTag) + sizeVarint(id)
	}
	before := len(s.held.b)
	b := s.packet(start, len(stageTag)+sizeVarint(uint64(size))+size)
	b = append(b, stageTag...)
	b = appendVarint(b, uint64(size))
	b = append(b, q.place...)
	b = append(b, g.body...)
	for _, id := range waits {
		b = appendVarint(append(b, waitTag...), id)
	}
	b = append(b, launchTag...)
	b = appendVarint(b, uint64(launch))
	b = append(b, g.launch...)
	b = append(b, device...)
	b = append(b, stream...)
	b = append(b, own...)
	b = appendVarint(append(b, byte(stageEventID)<<3), id)
	s.stamp(appendVarint(append(b, byte(stageDuration)<<3), dur), start)
	s.wrote(before)
}

// Tags of fields that take two bytes.
var (
	stageTag  = protowire.AppendTag(nil, protowire.Number(packetGPURenderStage), protowire.BytesType)
	launchTag = protowire.AppendTag(nil, protowire.Number(stageLaunch), protowire.BytesType)
	waitTag   = protowire.AppendTag(nil, protowire.Number(stageWait), protowire.VarintType)
)
