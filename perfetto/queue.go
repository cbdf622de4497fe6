package perfetto

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
	seq     *lane
	place   []byte // the fields that are the same in each event, encoded
	device  []byte // the argument "device", encoded
	stream  []byte
	stages  [stages]bool // which are interned already
	refs    []ref        // of the two arguments
	kernels bitset       // the same
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

	g := &GPUQueue{seq: w.newLane(0)}
	g.seq.begin()
	w.specification(id, q.Name, q.Description, 0)
	w.graphicsContext(context, q.PID)
	w.computeArg(&device, &g.refs, launchArg, new(Uint("device", uint64(q.GPU))))
	w.computeArg(&stream, &g.refs, launchArg, new(Uint("stream", uint64(q.Stream))))
	g.seq.refer(g.refs)
	g.seq.end()
	g.seq.wrote(0)
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

// stage makes sure that a stage is interned in the sequence.
func (q *GPUQueue) stage(s Stage) {
	if q.stages[s] {
		return
	}
	q.stages[s] = true
	category := uint64(0)
	if s == StageKernel {
		category = categoryCompute
	}
	q.seq.w.specification(firstStageID+uint64(s), stageNames[s], "", category)
}

// intern makes sure that a kernel is interned in the sequence, under its own number.
func (q *GPUQueue) intern(id KernelID) {
	q.kernels.add(uint32(id))
	w := q.seq.w
	k := &w.kernels[id-1]
	// Names of arguments are interned while the kernel is written, so it is
	// written aside.
	b := &w.aside
	b.b, w.asideRefs = b.b[:0], w.asideRefs[:0]
	b.uint(internID, uint64(id))
	b.text(internText, k.Name)
	b.optional(kernelDemangled, k.Demangled)
	b.optional(kernelArch, k.Arch)
	for i := range k.Args {
		w.computeArg(b, &w.asideRefs, kernelArg, &k.Args[i])
	}
	q.seq.refer(w.asideRefs)
	w.interned.bytes(internedKernel, b.b)
}
