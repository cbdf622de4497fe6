package perfetto

import "fmt"

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
