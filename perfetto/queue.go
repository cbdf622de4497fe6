package perfetto

// A QueueInfo describes a stream of a CUDA context.
type QueueInfo struct {
	PID               uint32
	GPU               uint32 // GPU.ID
	Context, Stream   uint32
	Name, Description string // queues of a GPU are shown in the order of Name
}

// A Queue shows the work of a stream, as a hardware queue of a GPU. Work that overlaps is
// shown side by side.
type Queue struct {
	sequence *bufferedSequence
	fields   []byte       // encoded fields of GpuRenderStageEvent that all its events have
	device   []byte       // the encoded argument "device"
	stream   []byte       // the encoded argument "stream"
	stages   [stages]bool // interned stages
	kernels  bitset       // interned kernels
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

	s := w.newBufferedSequence(0, packetRenderStage)
	s.begin()
	n := &w.interner
	n.specification(id, info.Name, info.Description, 0)
	n.graphicsContext(context, info.PID)
	var refs []stringRef
	n.appendArg(&device, &refs, launchArg, extraComputeArg, new(Uint("device", uint64(info.GPU))))
	n.appendArg(&stream, &refs, launchArg, extraComputeArg, new(Uint("stream", uint64(info.Stream))))
	s.internStrings(refs)
	s.end()
	s.appended(len(s.packets.b))
	return &Queue{sequence: s, fields: fields.b, device: device.b, stream: stream.b}
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
	q.sequence.w.interner.specification(firstStageID+uint64(s), stageNames[s], "", category)
}

// internKernel interns a kernel, unless id is 0, in the queue's sequence.
func (q *Queue) internKernel(id KernelID) {
	if id == 0 || q.kernels.has(uint32(id)) {
		return
	}
	q.kernels.add(uint32(id))
	w := q.sequence.w
	k := &w.kernels[id-1]
	// The arguments intern their names while the kernel is encoded: both go to
	// InternedData, so the kernel is encoded aside.
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
