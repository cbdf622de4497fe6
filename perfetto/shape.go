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
	last   image  // see Template
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
	g.last.lane = nil
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
	q.event(&w.shape, e.ID, e.Start, e.Dur, &parts{waits: e.Waits})
}

// EventAs writes a piece of work as Event does; own are its arguments beside those of g.
func (q *GPUQueue) EventAs(g *Shape, id, start, dur uint64, own ...Arg) {
	w := q.seq.w
	w.refs, w.varied.b = w.refs[:0], w.varied.b[:0]
	for i := range own {
		w.computeArg(&w.varied, &w.refs, launchArg, &own[i])
	}
	q.seq.refer(w.refs)
	q.event(g, id, start, dur, &parts{own: w.varied.b})
}

// EventWith writes a piece of work as Event does, with one argument beside those of g: v
// is its value.
func (q *GPUQueue) EventWith(g *Shape, id, start, dur uint64, name *ArgName, v uint64) {
	l := q.seq
	var n numbers
	n.set(0, v)
	n.set(1, id)
	n.set(2, dur)
	if id != 0 && g.last.again(l, name, &n, start) {
		return
	}
	timed := sizeVarint(start - l.last)
	size, again := q.event(g, id, start, dur, &parts{name: name, value: v})
	if !again {
		return
	}
	last := timed + 1 + n[2].size
	g.last.keep(l, name, &n, size, timed, [maxNumbers]int{last + 2 + n[1].size + n[0].size, last + 1 + n[1].size, last})
}

// event writes a GpuRenderStageEvent. What differs from event to event stands at the end,
// which compresses best. All lengths are known before the first byte is written. It returns what
// that of a lane does.
func (q *GPUQueue) event(g *Shape, id, start, dur uint64, p *parts) (packet int, again bool) {
	if id == 0 {
		q.seq.w.fail(fmt.Errorf("perfetto: GPU work without an id"))
		return 0, false
	}
	if p.name != nil {
		q.seq.refer(p.name.forms[:])
	}
	q.know(g)
	again = len(q.seq.w.interned.b) == 0
	launch := len(g.launch) + len(p.own)
	if !g.device {
		launch += len(q.device)
	}
	if !g.stream {
		launch += len(q.stream)
	}
	if p.name != nil {
		launch += p.name.work.size(p.value)
	}
	size := len(q.place) + len(g.body) + len(launchTag) + sizeVarint(uint64(launch)) + launch + 2 + sizeVarint(id) + sizeVarint(dur)
	for _, id := range p.waits {
		size += len(waitTag) + sizeVarint(id)
	}
	b, i := q.seq.packet(start, len(stageTag)+sizeVarint(uint64(size))+size)
	i += copy(b[i:], stageTag)
	i = putVarint(b, i, uint64(size))
	i += copy(b[i:], q.place)
	i += copy(b[i:], g.body)
	for _, id := range p.waits {
		i += copy(b[i:], waitTag)
		i = putVarint(b, i, id)
	}
	i = q.putLaunch(b, i, launch, g, p)
	b[i] = byte(stageEventID) << 3
	i = putVarint(b, i+1, id)
	b[i] = byte(stageDuration) << 3
	return q.seq.stamp(b, putVarint(b, i+1, dur), start), again
}

// know makes sure that the sequence has written what a shape refers to.
func (q *GPUQueue) know(g *Shape) {
	q.seq.template(g.id, g.refs)
	if !q.stages[g.stage] {
		q.stage(g.stage)
	}
	if g.kernel != 0 && !q.kernels.has(uint32(g.kernel)) {
		q.intern(g.kernel)
	}
}

// putLaunch stores the ComputeKernelLaunch, which has size bytes.
func (q *GPUQueue) putLaunch(b []byte, i, size int, g *Shape, p *parts) int {
	i += copy(b[i:], launchTag)
	i = putVarint(b, i, uint64(size))
	i += copy(b[i:], g.launch)
	if !g.device {
		i += copy(b[i:], q.device)
	}
	if !g.stream {
		i += copy(b[i:], q.stream)
	}
	i += copy(b[i:], p.own)
	if p.name != nil {
		i = p.name.work.put(b, i, p.value)
	}
	return i
}

// Tags of fields that take two bytes.
var (
	stageTag  = protowire.AppendTag(nil, protowire.Number(packetGPURenderStage), protowire.BytesType)
	launchTag = protowire.AppendTag(nil, protowire.Number(stageLaunch), protowire.BytesType)
	waitTag   = protowire.AppendTag(nil, protowire.Number(stageWait), protowire.VarintType)
)
