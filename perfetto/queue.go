package perfetto

import "fmt"

// A Queue is a stream of a CUDA context.
type Queue struct {
	PID               uint32
	GPU               uint32 // GPU.ID
	Context, Stream   uint32
	Name, Description string // queues of a GPU are shown in the order of Name
}

type contextKey struct{ pid, context uint32 }

// Specifications of stages and queues share one table of ids, in which those of
// queues must be unique in the whole trace.
const (
	firstStageID = 1
	firstQueueID = 16
)

// A GPUQueue shows the work of a queue. Work that overlaps is shown side by side.
type GPUQueue struct {
	seq     sequence
	place   []byte // the fields that are the same in each event, encoded
	device  []byte // the argument "device", encoded
	stream  []byte
	stages  [stages]bool // which are interned already
	kernels map[KernelID]struct{}
}

// Queue returns the queue of a stream.
func (w *Writer) Queue(q Queue) *GPUQueue {
	id := firstQueueID + w.queues
	w.queues++
	context := w.contextID(q.PID, q.Context)
	var place, device, stream buffer
	place.uint(stageContext, context)
	place.uint(stageGPU, uint64(q.GPU))
	place.uint(stageQueue, id)

	g := &GPUQueue{seq: w.newSequence(0, internedComputeArgName), kernels: make(map[KernelID]struct{})}
	g.seq.begin()
	w.specification(id, q.Name, q.Description, 0)
	w.graphicsContext(context, q.PID)
	g.seq.computeArg(&device, launchArg, new(Uint("device", uint64(q.GPU))))
	g.seq.computeArg(&stream, launchArg, new(Uint("stream", uint64(q.Stream))))
	g.seq.end()
	g.place, g.device, g.stream = place.b, device.b, stream.b
	return g
}

// contextID returns the number of a context, unique in the trace.
func (w *Writer) contextID(pid, context uint32) uint64 {
	key := contextKey{pid, context}
	id, ok := w.contexts[key]
	if !ok {
		id = uint64(len(w.contexts) + 1)
		w.contexts[key] = id
	}
	return id
}

func (w *Writer) graphicsContext(id uint64, pid uint32) {
	data := &w.interned
	start := data.open(internedContext)
	data.uint(internID, id)
	data.uint(contextPID, uint64(pid))
	data.uint(contextAPI, apiCUDA)
	data.close(start)
}

func (w *Writer) specification(id uint64, name, description string, category uint64) {
	data := &w.interned
	start := data.open(internedSpecification)
	data.uint(internID, id)
	data.text(internText, name)
	data.optional(specDescription, description)
	if category != 0 {
		data.uint(specCategory, category)
	}
	data.close(start)
}

// Event writes a piece of work. Its launch gets the arguments "device" and
// "stream" of the queue, unless e.Args has them, by which the UI groups it.
func (q *GPUQueue) Event(e *GPUEvent) {
	if e.ID == 0 || e.Stage < 0 || e.Stage >= stages || int(e.Kernel) > len(q.seq.w.kernels) {
		q.seq.w.fail(fmt.Errorf("perfetto: GPU event %d of stage %d with kernel %d: one of them is out of range", e.ID, e.Stage, e.Kernel))
		return
	}
	s := &q.seq
	b := s.at(e.Start)
	start := b.open(packetGPURenderStage)
	b.uint(stageEventID, e.ID)
	b.uint(stageDuration, e.Dur)
	b.b = append(b.b, q.place...)
	b.uint(stageStage, q.stage(e.Stage))
	if id := s.names.id(&s.w.interned, e.Name); id != 0 {
		b.uint(stageNameID, id)
	} else {
		b.optional(stageName, e.Name)
	}
	for _, id := range e.Waits {
		b.uint(stageWait, id)
	}
	if e.Kernel != 0 {
		q.intern(e.Kernel)
		b.uint(stageKernel, uint64(e.Kernel))
	}
	q.launch(b, e)
	b.close(start)
	s.end()
}

// launch appends the ComputeKernelLaunch of e.
func (q *GPUQueue) launch(b *buffer, e *GPUEvent) {
	start := b.open(stageLaunch)
	b.dimensions(launchGrid, e.Grid)
	b.dimensions(launchWorkgroup, e.Block)
	device, stream := q.device, q.stream
	for i := range e.Args {
		a := &e.Args[i]
		switch a.name {
		case "device":
			device = nil
		case "stream":
			stream = nil
		}
		q.seq.computeArg(b, launchArg, a)
	}
	b.b = append(b.b, device...)
	b.b = append(b.b, stream...)
	b.close(start)
}

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

// stage returns the id of a stage, interned in the sequence.
func (q *GPUQueue) stage(s Stage) uint64 {
	id := firstStageID + uint64(s)
	if !q.stages[s] {
		q.stages[s] = true
		category := uint64(0)
		if s == StageKernel {
			category = categoryCompute
		}
		q.seq.w.specification(id, stageNames[s], "", category)
	}
	return id
}

// intern makes sure that a kernel is interned in the sequence, under its own number.
func (q *GPUQueue) intern(id KernelID) {
	if _, ok := q.kernels[id]; ok {
		return
	}
	w := q.seq.w
	q.kernels[id] = struct{}{}
	k := &w.kernels[id-1]
	// Names of arguments are interned while the kernel is written, so it is
	// written aside.
	b := &w.aside
	b.b = b.b[:0]
	b.uint(internID, uint64(id))
	b.text(internText, k.Name)
	b.optional(kernelDemangled, k.Demangled)
	b.optional(kernelArch, k.Arch)
	for i := range k.Args {
		q.seq.computeArg(b, kernelArg, &k.Args[i])
	}
	w.interned.bytes(internedKernel, b.b)
}
