package perfetto

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Stage is a kind of GPU work: in the trace, a render stage.
type Stage int

// The kinds of GPU work.
const (
	StageKernel Stage = iota
	StageMemcpy
	StageMemset
	stages
)

var stageNames = [stages]string{"Kernel", "Memcpy", "Memset"}

// stageDescriptions stand in the arguments of all work; without one the UI shows "null".
var stageDescriptions = [stages]string{"kernel", "copy", "memory set"}

// A RenderStageEvent describes GPU work: the fields of a GpuRenderStageEvent that many
// events share.
type RenderStageEvent struct {
	Stage       Stage
	Name        string // "" for the name of the stage
	Kernel      KernelID
	Grid, Block [3]uint32 // number of blocks, and of threads in a block; all 0 for none
	Args        []Arg
}

// A RenderStageTemplate holds the fields of a [RenderStageEvent]. It serves for all queues
// of one Writer.
type RenderStageTemplate struct {
	template
	launch    []byte // encoded fields of the ComputeKernelLaunch
	kernel    KernelID
	stage     Stage
	hasDevice bool // there is an argument "device"
	hasStream bool // there is an argument "stream"
}

// Encode replaces the content of the template.
func (t *RenderStageTemplate) Encode(w *Writer, e *RenderStageEvent) {
	if e.Stage < 0 || e.Stage >= stages || int(e.Kernel) > len(w.kernels) {
		w.output.fail(fmt.Errorf("perfetto: GPU work of stage %d with kernel %d: one of them is out of range", e.Stage,
			e.Kernel))
		e = &RenderStageEvent{}
	}
	b := t.reset(w)
	t.kernel, t.stage, t.hasDevice, t.hasStream = e.Kernel, e.Stage, false, false
	b.uint(stageStageID, firstStageID+uint64(e.Stage))
	if id := w.interner.number(&t.refs, tableEventNames, e.Name); id != 0 {
		b.uint(stageNameID, id)
	} else {
		b.optional(stageName, e.Name)
	}
	if e.Kernel != 0 {
		b.uint(stageKernelID, uint64(e.Kernel))
		t.find(w.kernels[e.Kernel-1].Args)
	}
	t.fields = b.b
	t.encodeLaunch(w, e)
}

func (t *RenderStageTemplate) encodeLaunch(w *Writer, e *RenderStageEvent) {
	b := buffer{t.launch[:0]}
	b.dimensions(launchGrid, e.Grid)
	b.dimensions(launchWorkgroup, e.Block)
	t.find(e.Args)
	for i := range e.Args {
		a := &e.Args[i]
		w.interner.appendArg(&b, &t.refs, launchArg, extraComputeArg, a)
	}
	t.launch = b.b
}

// find notes whether the arguments name a device and a stream.
func (t *RenderStageTemplate) find(args []Arg) {
	for i := range args {
		t.hasDevice = t.hasDevice || args[i].name == "device"
		t.hasStream = t.hasStream || args[i].name == "stream"
	}
}

// dimensions appends a Dim3 unless all dimensions are 0.
func (b *buffer) dimensions(f field, d [3]uint32) {
	if d == [3]uint32{} {
		return
	}
	start := b.open(f)
	b.uint(dimX, uint64(d[0]))
	b.uint(dimY, uint64(d[1]))
	b.uint(dimZ, uint64(d[2]))
	b.close(start)
}

// renderStageEvent encodes a GpuRenderStageEvent. The fields that differ from event to
// event stand last, which compresses best. The packet is saved for patching unless v is nil.
func (q *Queue) renderStageEvent(t *RenderStageTemplate, id, start, dur uint64, a *eventArgs, v *patchValues) {
	s := q.sequence
	a.internLast(&s.sequence, extraComputeArg)
	s.internTemplate(t.id, t.refs)
	q.internStage(t.stage)
	q.internKernel(t.kernel)
	if s.internsData() {
		v = nil
	}
	launch := q.launchSize(t, a)
	size := len(q.fields) + len(t.fields) + len(launchTag) + sizeVarint(uint64(launch)) + launch + 2 + sizeVarint(id) +
		sizeVarint(dur)
	b, i := s.openPacket(start, size)
	i += copy(b[i:], q.fields)
	i += copy(b[i:], t.fields)
	i, argEnds := q.putLaunch(b, i, launch, t, a)
	b[i] = byte(stageEventID) << 3
	idEnd := putVarint(b, i+1, id)
	b[idEnd] = byte(stageDuration) << 3
	durationEnd := putVarint(b, idEnd+1, dur)
	packet := s.closePacket(b, durationEnd, start)
	if v != nil {
		t.save(s, &a.last, v, packet, &[maxPatched]int{argEnds[0], argEnds[1], idEnd, durationEnd})
	}
}

// launchSize is the size of the ComputeKernelLaunch of an event.
func (q *Queue) launchSize(t *RenderStageTemplate, a *eventArgs) int {
	n := len(t.launch) + a.size()
	if !t.hasDevice {
		n += len(q.device)
	}
	if !t.hasStream {
		n += len(q.stream)
	}
	return n
}

// putLaunch stores the field with the ComputeKernelLaunch of an event, of a known size, at
// b[i:] and returns the offset behind it, and those behind the event's last arguments.
func (q *Queue) putLaunch(b []byte, i, size int, t *RenderStageTemplate, a *eventArgs) (end int,
	argEnds [len(UintArgs{})]int) {
	i += copy(b[i:], launchTag)
	i = putVarint(b, i, uint64(size))
	i += copy(b[i:], t.launch)
	if !t.hasDevice {
		i += copy(b[i:], q.device)
	}
	if !t.hasStream {
		i += copy(b[i:], q.stream)
	}
	return a.put(b, i)
}

var launchTag = protowire.AppendTag(nil, protowire.Number(stageLaunch), protowire.BytesType)
