package perfetto

import "errors"

// A QueueInfo describes a stream of a CUDA context: in the trace, a hardware queue of a GPU.
type QueueInfo struct {
	PID               uint32
	GPU               uint32 // GPU.ID
	Context, Stream   uint32
	Name, Description string // the UI sorts the queues of a GPU by Name
}

// A Queue shows the work of a stream. The UI shows work that overlaps side by side.
type Queue struct {
	sequence *bufferedSequence
	fields   []byte       // the fields that its events share, encoded
	device   []byte       // the argument "device", encoded
	stream   []byte       // the argument "stream", encoded
	stages   [stages]bool // interned in the sequence
	kernels  bitset       // interned in the sequence, by KernelID
}

// InternedData.gpu_specifications describes stages and queues alike. The ids of queues
// must be unique in the trace, not just in their sequence.
const (
	firstStageID = 1
	firstQueueID = 16
)

// Queue returns the queue of a stream.
func (w *Writer) Queue(info QueueInfo) *Queue {
	id := firstQueueID + w.queues
	w.queues++
	context := w.contextID(info.PID, info.Context)
	var fields, device, stream buffer
	fields.uint(stageContext, context)
	fields.uint(stageGPU, uint64(info.GPU))
	fields.uint(stageQueueID, id)

	s := w.newBufferedSequence(0)
	n := &w.interner
	n.specification(id, info.Name, info.Description, 0)
	n.graphicsContext(context, info.PID)
	var refs []stringRef
	n.appendArg(&device, &refs, launchArg, extraComputeArg, new(Uint("device", uint64(info.GPU))))
	n.appendArg(&stream, &refs, launchArg, extraComputeArg, new(Uint("stream", uint64(info.Stream))))
	s.internStrings(refs)
	s.begin()
	s.end()
	return &Queue{sequence: s, fields: fields.b, device: device.b, stream: stream.b}
}

// Event writes a piece of GPU work. args are arguments beside those of the template. The UI
// groups work by the arguments "device" and "stream": where the template has none, they are
// the queue's. id is unique in the trace, and not 0.
//
// The fields that differ from event to event stand last, which compresses best.
func (q *Queue) Event(t *RenderStageTemplate, id, start, dur uint64, args ...Arg) {
	s := q.sequence
	if id == 0 {
		s.w.output.fail(errors.New("perfetto: GPU work without an id"))
		return
	}
	encoded := s.encodeArgs(extraComputeArg, args)
	s.internTemplate(&t.template)
	q.internStage(t.stage)
	q.internKernel(t.kernel)
	b := s.begin()
	event := b.open(packetRenderStage)
	b.b = append(append(b.b, q.fields...), t.fields...)
	launch := b.open(stageLaunch)
	b.b = append(b.b, t.launch...)
	if !t.hasDevice {
		b.b = append(b.b, q.device...)
	}
	if !t.hasStream {
		b.b = append(b.b, q.stream...)
	}
	b.b = append(b.b, encoded...)
	b.close(launch)
	b.uint(stageEventID, id)
	b.uint(stageDuration, dur)
	b.close(event)
	s.endAt(start)
}

type contextKey struct{ pid, context uint32 }

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

// graphicsContext interns a CUDA context of a process.
func (n *interner) graphicsContext(id uint64, pid uint32) {
	start := n.data.open(internedContexts)
	n.data.uint(internedID, id)
	n.data.uint(contextPID, uint64(pid))
	n.data.uint(contextAPI, apiCUDA)
	n.data.close(start)
}

// specification interns a stage or a queue.
func (n *interner) specification(id uint64, name, description string, category uint64) {
	start := n.data.open(internedSpecifications)
	n.data.uint(internedID, id)
	n.data.text(internedText, name)
	n.data.optional(specDescription, description)
	if category != 0 {
		n.data.uint(specCategory, category)
	}
	n.data.close(start)
}

// internStage interns a stage in the queue's sequence.
func (q *Queue) internStage(s Stage) {
	if q.stages[s] {
		return
	}
	q.stages[s] = true
	category := uint64(0)
	if s == StageKernel {
		category = categoryCompute
	}
	q.sequence.w.interner.specification(firstStageID+uint64(s), stageNames[s], stageDescriptions[s], category)
}

// internKernel interns a kernel, unless id is 0, in the queue's sequence.
func (q *Queue) internKernel(id KernelID) {
	if id == 0 || q.kernels.has(uint32(id)) {
		return
	}
	q.kernels.set(uint32(id))
	w := q.sequence.w
	k := &w.kernels[id-1]
	// Encoding the arguments interns their names, which adds to InternedData: the kernel is
	// encoded elsewhere and added last.
	b := &w.kernel
	b.b, w.kernelRefs = b.b[:0], w.kernelRefs[:0]
	b.uint(internedID, uint64(id))
	b.text(internedText, k.Name)
	b.optional(kernelDemangled, k.Demangled)
	for i := range k.Args {
		w.interner.appendArg(b, &w.kernelRefs, kernelArg, extraComputeArg, &k.Args[i])
	}
	q.sequence.internStrings(w.kernelRefs)
	w.interner.data.bytes(internedKernels, b.b)
}
